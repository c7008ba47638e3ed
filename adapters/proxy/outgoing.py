"""What a session last sent, kept as bytes between passes: a deferred pass adds to it, a rebuild replaces it.

A deferred pass may not change a byte it sent before (law 3), so nothing of the old is rendered or copied piece by
piece: what is new goes behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import msgspec

from ...api import Request
from ...projections.wire import wire

T = TypeVar("T")


class Outgoing(msgspec.Struct):
    """The rendered request of a session, without cache marks.

    ``number``: the pass it stands at (-1: none). ``text``: the wire messages joined by commas; ``starts[i]``: where
    message i begins. The first ``leading`` are system messages, the next ``head`` are m[0] and m[1]. ``system`` and
    ``tools``: JSON with the guidance, ``b""`` to leave out. ``tail``: which message carried the last mark when the
    request before this one was assembled (-1: none since the last rebuild). ``made``: what ``once``
    keeps until the next rebuild.
    """

    number: int = -1
    text: bytearray = msgspec.field(default_factory=bytearray)
    starts: list[int] = msgspec.field(default_factory=list)
    leading: int = 0
    head: int = 0
    system: bytes = b""
    tools: bytes = b""
    regions: tuple[tuple[bytes, ...], bytes] | None = None
    tail: int = -1
    before: int = -1
    made: dict[object, tuple[object, object]] = {}

    def follow(self, request: Request, regions: tuple[tuple[bytes, ...], bytes]) -> None:
        """Take in the request of a pass. ``regions``: what the client sent with it as system and tools.

        Only what is new is rendered where the request goes on behind the one held here; the whole request else.
        """
        if request.pass_number == self.number:
            return  # the same request once more
        if request.goes_on and request.base == self.number and regions == self.regions:
            for one in request.delta:
                for message in one.json:
                    self._add(message)
        else:
            built = request.built
            self.text, self.starts, self.tail, self.before, self.made = bytearray(), [], -1, -1, {}
            for message in built.messages:
                self._add(message)
            self.leading, self.head = built.leading, built.head
            self.system, self.tools = wire(built.wire).unmarked(built.system), built.tools
        self.number = request.pass_number
        self.regions = regions

    def copy(self) -> Outgoing:
        """Return one that may go another way from here."""
        return msgspec.structs.replace(self, text=bytearray(self.text), starts=list(self.starts), made=dict(self.made))

    def once(self, name: object, given: object, make: Callable[[], T]) -> T:
        """Return ``make()``, or what it returned before from the same ``given``; forgotten with the next rebuild."""
        found = self.made.get(name)
        if found is None or found[0] != given:
            found = self.made[name] = (given, make())
        return cast("T", found[1])

    def _add(self, message: bytes) -> None:
        if self.starts:
            self.text += b","
        self.starts.append(len(self.text))
        self.text += message

    def message(self, index: int) -> bytes:
        """Return one wire message, without marks."""
        begin = self.starts[index]
        end = self.starts[index + 1] - 1 if index + 1 < len(self.starts) else len(self.text)
        return bytes(memoryview(self.text)[begin:end])

    def messages(self) -> list[bytes]:
        """Return all wire messages, without marks. Proportional to the session: for tests and displays."""
        return [self.message(index) for index in range(len(self.starts))]

    def pieces(self, changed: dict[int, bytes] | None = None) -> list[bytes | memoryview]:
        """Return the messages as pieces to join, some of them in another form. No piece is copied here."""
        view = memoryview(self.text).toreadonly()
        found: list[bytes | memoryview] = []
        at = 0
        for index in sorted(changed or {}):
            begin = self.starts[index]
            end = self.starts[index + 1] - 1 if index + 1 < len(self.starts) else len(self.text)
            found += [view[at:begin], (changed or {})[index]]
            at = end
        found.append(view[at:])
        return found

    def size(self) -> int:
        """Return about how many bytes this holds in memory."""
        return len(self.text) + 40 * len(self.starts) + len(self.system) + len(self.tools)

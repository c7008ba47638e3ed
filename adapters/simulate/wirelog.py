"""The wire log: one JSON line a request, with the digest, bytes and tokens of every block (``specs/wire-log.md``).

A request that only goes on costs what is new: the list of the one before is kept, encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, BinaryIO

import msgspec

from ...api import Request
from ...domain import events as ev
from ...domain.session import State
from ...projections.compare import spread
from ...projections.request import Built
from ...projections.view import View
from ...projections.wire import wire

Row = tuple[str, int, int]
"""One block: 16 hex digits of its digest, bytes, tokens."""


class _Message(msgspec.Struct):
    """A wire message: its blocks as rows, encoded; ``mark``: which of them would carry a cache mark, -1 if none."""

    count: int
    text: bytes
    mark: int


class _Head(msgspec.Struct, frozen=True):
    line: bytes
    rows: int
    marks: tuple[int, ...]


class WireLog(msgspec.Struct):
    """Writes the requests of one session to ``out``. ``count``: tokens of a text."""

    out: BinaryIO
    session: str
    codec: str
    count: Callable[[str], int]
    tokens: dict[bytes, int] = msgspec.field(default_factory=dict)
    known: dict[bytes, _Message] = msgspec.field(default_factory=dict)
    front: _Head = _Head(b"", 0, ())
    line: bytearray = msgspec.field(default_factory=bytearray)
    messages: list[tuple[int, _Message]] = msgspec.field(default_factory=list)
    rows: int = 0
    requests: int = 0
    version: int = 1

    def write(self, request: Request, state: State, view: View, at: int, model: str, output: int) -> None:
        """Write one request. ``at``: ms UTC; ``output``: tokens of its answer, -1 = unknown."""
        event = request._produced.event
        if self._goes_on(event):
            for one in request._produced.delta:
                self._extend((one.m, raw) for raw in one.json)
        else:
            self._start(request.built, view.wire)
        fields = [
            b'{"session":' + msgspec.json.encode(self.session),
            b'"at":%d' % at,
            b'"model":' + msgspec.json.encode(model),
            b'"level":' + msgspec.json.encode(request.level),
            b'"blocks":[' + bytes(self.line) + b"]",
            b'"breakpoints":' + msgspec.json.encode(self._breakpoints()),
            b'"output_tokens":' + (b"%d" % output if output >= 0 else b"null"),
            b'"kind":"main"',
        ]
        if isinstance(event, ev.PassDeferred) and event.divergence is not None:
            fields.append(b'"divergence":%d' % self._place(event.divergence, state, view))
        self.out.write(b",".join(fields) + b"}\n")
        self.requests += 1

    def _goes_on(self, event: Any) -> bool:
        return isinstance(event, ev.PassDeferred) and event.divergence is None and event.side is None and self.rows > 0

    def _start(self, built: Built, version: int) -> None:
        self.version = version
        form = wire(version)
        tools, system = form.tools_blocks(self.codec, built.tools), form.system_blocks(self.codec, built.system)
        rows = [self._row(block, self.count) for block in (*tools, *system)]
        text = _encoded(rows)
        above = len(built.messages[: built.leading + built.head])
        front = [form.blocks(self.codec, raw) for raw in built.messages[built.leading : above]]
        marks = form.mark_indexes(self.codec, len(tools), len(system), front, built.head)
        self.front = _Head(text, len(rows), tuple(marks))
        self.line = bytearray(text)
        self.rows = len(rows)
        self.messages = []
        self._extend(zip(built.owners, built.messages, strict=True))

    def _extend(self, given: Iterable[tuple[int, bytes]]) -> None:
        for m, raw in given:
            message = self.known.get(raw)
            if message is None:
                message = self.known[raw] = self._message(raw)
            if self.line and message.text:
                self.line += b","
            self.line += message.text
            self.rows += message.count
            self.messages.append((m, message))

    def _message(self, raw: bytes) -> _Message:
        form = wire(self.version)
        blocks = form.blocks(self.codec, raw)
        parts = form.read(self.codec, raw, self.count).message.parts
        rows = []
        for index, block in enumerate(blocks):
            tokens = parts[index].tokens if len(parts) == len(blocks) else None
            rows.append(self._row(block, self.count, tokens))
        mark = form.mark_indexes(self.codec, 0, 0, [blocks], 0)
        return _Message(len(rows), _encoded(rows), mark[-1] if mark else -1)

    def _row(self, block: Any, count: Callable[[str], int], tokens: int | None = None) -> Row:
        known = self.tokens.get(block.digest)
        if known is None:
            known = count(block.form.decode("utf-8", "replace")) if tokens is None else tokens
            self.tokens[block.digest] = known
        return block.digest.hex()[:16], block.size, known

    def _breakpoints(self) -> list[int] | None:
        """Return the marked blocks: end of the system, m[0], m[1], and the last block that can carry a mark."""
        if self.codec != "anthropic":
            return None
        marks = list(self.front.marks)
        end = self.rows
        for _, message in reversed(self.messages):
            end -= message.count
            if message.mark >= 0:
                if end + message.mark not in marks:
                    marks.append(end + message.mark)
                break
        return marks

    def _place(self, divergence: ev.Divergence, state: State, view: View) -> int:
        """Return the index of the first block a divergence concerns."""
        if divergence.cause in ("system", "tools"):
            return 0
        at, path = self.front.rows, 0
        owners: Sequence[tuple[int, _Message]] = self.messages
        last = 0
        for m, message in owners:
            if m and m != last:
                path += 1
                last = m
            if m and (m == divergence.m or path > divergence.index):
                if m == divergence.m and divergence.p:
                    parts = spread(view.of(m), state.node(m).message, message.count)
                    at += sum(0 <= p < divergence.p for p in parts)
                break
            at += message.count
        return at


def _encoded(rows: Sequence[Row]) -> bytes:
    return msgspec.json.encode(rows)[1:-1]

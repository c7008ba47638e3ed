"""Our own messages coming back: a host that keeps what was served as its history has said nothing new (CB-06).

What stands at the place of a message and is, part for part, a form that message was or would be served in, is that
message. So the head, numbers, placeholders and what was told the agent make no new identity and are paid for once.
Anything else is the host's own, whatever it looks like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ..domain.edits import Insert, MessageSlots, PartSlots
from ..domain.state import State, key
from . import decay, head, request
from .hot import Hot
from .intake import Reader, encode
from .wire import wire
from .wire.contract import Wire

Load = Callable[[bytes], bytes]
"""Returns the chunk of a digest."""
Heads = Callable[[], Iterable[tuple[Sequence[bytes], Sequence[bytes], int]]]
"""Returns the heads that were ever served, the newest first: chunks of m[0] and m[1], the last message they cover."""

OPENINGS = (head.HISTORY[0].encode().split(b"\n")[0], decay.EMPTY.encode())
"""How m[0] begins: only then heads of earlier passes are looked for."""


class Echo(msgspec.Struct, frozen=True):
    """What is needed to know our own messages again."""

    reader: Reader
    hot: Hot
    body: Load
    text: Load
    heads: Heads

    def restored(self, raws: Sequence[bytes], same: int) -> list[bytes] | None:
        """Return the host's array with its own messages where ours came back; None where none did.

        ``same``: how many leading messages are those of the head's path. Costs nothing where the array only grows.
        """
        state, path = self.hot.state, self.hot.state.path
        if not path or same == len(raws) or (same == len(path) and path[-1] not in self.hot.view.inserts):
            return None
        found: list[bytes] = list(raws[:same])
        i = j = same
        ours = False
        if not same and len(raws) > 1 and (cut := self._headed(raws)) is not None:
            i, j, ours = 2, cut, True
            found = [self.body(state.node(m).message.body) for m in path[:cut]]
        elif same:
            i, ours = self._behind(raws, i, path[j - 1], ours=False)
        while i < len(raws) and j < len(path):
            own = self.body(state.node(path[j]).message.body)
            if self._is(raws[i], path[j], i):
                found.append(raws[i])
            elif self._served_as(raws[i], path[j], own):
                found.append(own)
                ours = True
            elif ours and self._sent(path[j], own) is None:
                found.append(own)  # it was left out of what was served
                j += 1
                continue
            else:
                break
            i, ours = self._behind(raws, i + 1, path[j], ours=ours)
            j += 1
        if not ours:
            return None
        return [*found, *raws[i:]]

    def ahead(self, raws: Sequence[bytes]) -> list[bytes]:
        """Return what a host tells as new without units of ours that stand behind the head's last message."""
        path = self.hot.state.path
        return list(raws[self._behind(raws, 0, path[-1], ours=False)[0] :]) if path else list(raws)

    def comes_back(self, raw: bytes, m: int) -> bool:
        """Whether what a host tells of message ``m`` is only what it was served as."""
        return self._served_as(raw, m, self._own(m))

    def _own(self, m: int) -> bytes:
        return self.body(self.hot.state.node(m).message.body)

    def _is(self, raw: bytes, m: int, index: int) -> bool:
        return self.reader.ident(self.hot.state, raw, index) == self.hot.state.node(m).message.ident

    def _headed(self, raws: Sequence[bytes]) -> int | None:
        """Return the path index behind what a head in front of the array covers; None where there is none of ours."""
        state, view = self.hot.state, self.hot.view
        form = wire(state.wire)
        given = [self.reader.ident(state, raw, index) for index, raw in enumerate(raws[:2])]
        now = request.head_messages(view, self.text)
        if now and [self.reader.ident(state, raw, 0) for raw in now] == given:
            return state.start()
        opening = form.part_text(state.codec, raws[0], 0).encode() if self._parts(raws[0]) == 1 else b""
        if not opening.startswith(OPENINGS):
            return None
        for m0, m1, cut in self.heads():
            words = (b"".join(map(self.text, chunks)).decode() for chunks in (m0, m1))
            pair = form.head_messages(state.codec, *words)
            if [self.reader.ident(state, raw, 0) for raw in pair] == given:
                return state.pos.get(cut, -2) + 1 if cut else 0
        return None

    def _behind(self, raws: Sequence[bytes], i: int, m: int, *, ours: bool) -> tuple[int, bool]:
        """Return where the array goes on behind the units of ours that stand behind message ``m``."""
        units = self.hot.view.inserts.get(m, ())
        for raw in self._units(units):
            if i >= len(raws) or self._idents(raw) != self._idents(raws[i]):
                break
            i, ours = i + 1, True
        return i, ours

    def _units(self, units: Sequence[Insert]) -> Iterator[bytes]:
        form = wire(self.hot.view.wire)
        for unit in units:
            yield from form.insert_messages(self.hot.view.codec, unit, self.text(unit.text))

    def _sent(self, m: int, own: bytes) -> bytes | None:
        view = self.hot.view
        return wire(view.wire).render(view.codec, own, view.of(m), self.text)

    def _served_as(self, raw: bytes, m: int, own: bytes) -> bool:
        """Whether every part is as it was once: as its host said it, as it is served, or numbered."""
        state, view = self.hot.state, self.hot.view
        form = wire(view.wire)
        given = self._idents(raw)
        role = form.read(state.codec, raw, len).message.role
        known: list[tuple[bytes, ...]] = [self._idents(own)]
        for slots in (view.of(m), _numbered(state, m)):
            made = form.render(view.codec, own, slots, self.text)
            if made is not None:
                known.append(self._idents(made))
        alike = [one for one in known if len(one) == len(given)]
        same_role = role == state.node(m).message.role
        return same_role and bool(alike) and all(any(one[p] == part for one in alike) for p, part in enumerate(given))

    def _idents(self, raw: bytes) -> tuple[bytes, ...]:
        return self.reader.idents(self.hot.state, raw)

    def _parts(self, raw: bytes) -> int:
        return len(self._idents(raw))


def own_region(hot: Hot, text: Load, leading: Sequence[bytes], system: Any) -> tuple[Sequence[bytes], Any]:
    """Return the host's own system messages and system member where both came back with our guidance in them."""
    state, view = hot.state, hot.view
    if not view.guidance:
        return leading, system
    form = wire(view.wire)
    _, own = form.region(view.codec, text(view.system) if view.system else b"")
    if leading:
        served = request.system_messages(view, text)
        if _system(form, state.codec, leading) == _system(form, state.codec, served):
            leading = own
    if system and form.system_hash(state.codec, encode(system, "system")) == form.system_hash(
        state.codec, request.system(view, text)
    ):
        system = None
    return leading, system


def _system(form: Wire, codec: str, messages: Sequence[bytes]) -> bytes:
    return form.system_hash(codec, b"[" + b",".join(messages) + b"]")


def _numbered(state: State, m: int) -> MessageSlots:
    """Return the form a message has when it is first shown: numbers, and nothing else."""
    parts = range(len(state.node(m).message.parts))
    return MessageSlots(tuple(PartSlots(tag=state.tag_of.get(key(m, p), 0)) for p in parts))

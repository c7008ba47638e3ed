"""Two requests of a session held against each other, block by block, with the event that owns each difference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from ..domain import events as ev
from ..domain.edits import MessageSlots, PartSlots
from ..domain.paths import path_of
from ..domain.state import State
from ..domain.transcript import Message
from . import request
from .fold import Source, find_pass, load
from .provenance import edit_text, insert_text
from .view import View
from .wire import wire

Key = tuple[str, int, int, int]
"""Region, message, part (-1: not one part's), and which block of that part."""
_PLAIN = PartSlots()
SNIPPET = 80


class Owner(msgspec.Struct, frozen=True):
    """The event that made a difference: its place, name and pass (0: none), and the edit of it in words."""

    version: int = 0
    event: str = ""
    number: int = 0
    edit: str = ""


class Change(msgspec.Struct, frozen=True):
    """One block that is not the same in both: ``changed``, ``added`` or ``removed``. Sizes in bytes, -1: not there.

    ``region``: ``tools``, ``system``, ``m0``, ``m1``, ``message``, ``insert``. ``byte``: the first that differs of its
    canonical form.
    """

    kind: str
    region: str
    m: int
    p: int
    was: int
    now: int
    byte: int
    owner: Owner
    before: str = ""
    after: str = ""


class First(msgspec.Struct, frozen=True):
    """The first byte that differs. ``byte``: in the whole request, ``inside``: in its message or region."""

    byte: int
    region: str
    m: int
    p: int
    inside: int
    was: str
    now: str
    owner: Owner


class Diff(msgspec.Struct, frozen=True):
    """Two passes compared. ``same``: equal blocks; ``first``: None where one request only goes on behind the other."""

    stream: str
    left: int
    right: int
    left_bytes: int
    right_bytes: int
    same: int
    first: First | None
    changes: tuple[Change, ...]


class _Piece(msgspec.Struct, frozen=True):
    """A stretch of the request in wire order: the tools, the system, or one message, with its blocks by key."""

    region: str
    m: int
    data: bytes
    blocks: tuple[tuple[Key, bytes, bytes], ...]


class _Side(msgspec.Struct, frozen=True):
    version: int
    state: State
    pieces: tuple[_Piece, ...]
    path: tuple[int, ...]


def diff(source: Source, stream: str, left: int, right: int) -> Diff:
    """Compare the requests of two passes. Raises ``UnknownTag`` for a pass that made none, ``StoreDamaged``."""
    texts: dict[bytes, bytes] = {}

    def text(digest: bytes) -> bytes:
        if digest not in texts:
            texts[digest] = source.chunks([digest])[0]
        return texts[digest]

    old, new = _side(source, stream, left, text), _side(source, stream, right, text)
    early, late = sorted((old, new), key=lambda side: side.version)
    owners = _Owners.over(source, stream, early, late)
    was = {key: (digest, form) for piece in old.pieces for key, digest, form in piece.blocks}
    now = {key: (digest, form) for piece in new.pieces for key, digest, form in piece.blocks}
    changes = tuple(_changes(was, now, owners))
    return Diff(
        stream=stream,
        left=left,
        right=right,
        left_bytes=sum(len(piece.data) for piece in old.pieces),
        right_bytes=sum(len(piece.data) for piece in new.pieces),
        same=sum(key in now and now[key][0] == digest for key, (digest, _) in was.items()),
        first=_first(old.pieces, new.pieces, owners),
        changes=changes,
    )


def _side(source: Source, stream: str, number: int, text: Callable[[bytes], bytes]) -> _Side:
    stored = find_pass(source, stream, number)
    folded = load(source, stream, stored.version)
    state, view = folded.state, folded.view
    path = path_of(state, stored.event)
    built = request.build(view, path, lambda m: text(state.node(m).message.body), text)
    return _Side(stored.version, state, tuple(_pieces(state, view, built, text)), tuple(path))


def _pieces(state: State, view: View, built: request.Built, text: Callable[[bytes], bytes]) -> Iterator[_Piece]:
    form = wire(view.wire)
    for region, data, blocks in (
        ("tools", built.tools, form.tools_blocks(view.codec, built.tools)),
        ("system", built.system, form.system_blocks(view.codec, built.system)),
    ):
        if data:
            yield _Piece(region, 0, data, tuple(((region, 0, i, 0), b.digest, b.form) for i, b in enumerate(blocks)))
    seen: dict[int, int] = {}
    for index, (raw, m) in enumerate(zip(built.messages, built.owners, strict=True)):
        place = index - built.leading
        blocks = form.blocks(view.codec, raw)
        region = "system" if place < 0 else "m0" if place == 0 else "m1"
        if m:
            seen[m] = seen.get(m, 0) + 1
            own = built.owners.count(m) if m in view.inserts else 1
            region = "message" if seen[m] == 1 and own - _inserted(view, m, text) > 0 else "insert"
        if region == "message":
            parts = spread(view.of(m), state.node(m).message, len(blocks))
            keys = [(region, m, p, parts[:i].count(p)) for i, p in enumerate(parts)]
        else:
            keys = [(region, m, -1, index * 1000 + i if region == "insert" else i) for i in range(len(blocks))]
            if region == "system":
                keys = [(region, 0, index, i) for i in range(len(blocks))]
        yield _Piece(region, m, raw, tuple((key, b.digest, b.form) for key, b in zip(keys, blocks, strict=True)))


def _inserted(view: View, m: int, text: Callable[[bytes], bytes]) -> int:
    form = wire(view.wire)
    return sum(len(form.insert_messages(view.codec, one, text(one.text))) for one in view.inserts.get(m, ()))


def spread(slots: MessageSlots, message: Message, blocks: int) -> list[int]:
    """Return for each block of a rendered message the part it comes from; -1 where that cannot be told."""
    found: list[int] = []
    for p, part in enumerate(message.parts):
        slot = slots.parts[p] if p < len(slots.parts) else _PLAIN
        found += [p] * _count(type(part).__name__, slot)
    if slots.shape != "keep":
        return [-1] * blocks
    if slots.trail >= 0 and len(found) > blocks:
        del found[blocks:]
    return found if len(found) == blocks else [-1] * blocks


def _count(kind: str, slot: PartSlots) -> int:
    """Return how many blocks a part becomes (``specs/view.md``)."""
    if kind == "Other":
        return 1
    if slot.body == "absent" or (slot.body == "empty" and kind != "Text") or slot.think == "absent":
        return 0
    if kind != "Media" or slot.body in ("placeholder", "text"):
        return 1
    if slot.media == "strip":
        return 0
    return 1 + (slot.tag > 0 or bool(slot.pre)) + bool(slot.post)


def _changes(
    was: dict[Key, tuple[bytes, bytes]], now: dict[Key, tuple[bytes, bytes]], owners: _Owners
) -> Iterator[Change]:
    for key, (digest, form) in was.items():
        region, m, p, _ = key
        there = now.get(key)
        if there is None:
            yield Change("removed", region, m, p, len(form), -1, 0, owners.of(region, m, p), _snippet(form, 0))
        elif there[0] != digest:
            byte = _differs(form, there[1])
            before, after = (_snippet(one, byte) for one in (form, there[1]))
            owner = owners.of(region, m, p)
            yield Change("changed", region, m, p, len(form), len(there[1]), byte, owner, before, after)
    for key, (_, form) in now.items():
        if key not in was:
            region, m, p, _ = key
            yield Change("added", region, m, p, -1, len(form), 0, owners.of(region, m, p), "", _snippet(form, 0))


def _snippet(data: bytes, byte: int) -> str:
    """Return what stands from a byte on, as a short text."""
    return data[byte : byte + SNIPPET].decode("utf-8", "replace") + ("…" if len(data) > byte + SNIPPET else "")


def _differs(a: bytes, b: bytes) -> int:
    """Return the first index at which two byte strings differ (the shorter's length where one begins the other)."""
    low, high = 0, min(len(a), len(b))
    while low < high:  # the answer lies in low..high; comparing halves is far faster than a loop over bytes
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _first(old: tuple[_Piece, ...], new: tuple[_Piece, ...], owners: _Owners) -> First | None:
    at = 0
    for index in range(max(len(old), len(new))):
        was = old[index] if index < len(old) else None
        now = new[index] if index < len(new) else None
        if was is None or now is None:
            return None  # one goes on where the other ends
        if was.data != now.data:
            byte = _differs(was.data, now.data)
            fewer = {key: digest for key, digest, _ in now.blocks}
            key = next((key for key, digest, _ in was.blocks if fewer.get(key) != digest), None)
            if key is None:
                known = {key for key, _, _ in was.blocks}
                key = next((key for key, _, _ in now.blocks if key not in known), (was.region, was.m, -1, 0))
            region, m, p, _ = key
            before, after = _snippet(was.data, byte), _snippet(now.data, byte)
            return First(at + byte, region, m, p, byte, before, after, owners.of(region, m, p))
        at += len(was.data)
    return None


class _Owners(msgspec.Struct):
    """Which event last touched what, between two versions of a stream."""

    parts: dict[tuple[int, int], Owner] = msgspec.field(default_factory=dict)
    messages: dict[int, Owner] = msgspec.field(default_factory=dict)
    regions: dict[str, Owner] = msgspec.field(default_factory=dict)
    moved: Owner = Owner()
    hidden: set[int] = msgspec.field(default_factory=set)

    @staticmethod
    def over(source: Source, stream: str, early: _Side, late: _Side) -> _Owners:
        """Walk the events behind the earlier pass up to the later one."""
        owners = _Owners()
        nodes = len(early.state.nodes)
        path = set(early.path) ^ set(late.path)
        for stored in source.read(stream, early.version, late.version):
            event = stored.event
            place = Owner(stored.version, type(event).__name__, getattr(event, "number", 0))
            if isinstance(event, ev.MessagesObserved):
                for m in range(nodes + 1, nodes + len(event.messages) + 1):
                    owners.messages[m] = place
                nodes += len(event.messages)
            elif isinstance(event, ev.PartsRevised):
                owners.revised(event, place)
            elif isinstance(event, ev.HeadMoved):
                owners.moved = msgspec.structs.replace(place, edit=event.cause)
                owners.messages.update((m, owners.moved) for m in path)
            elif isinstance(event, ev.SystemChanged | ev.ToolsChanged):
                owners.regions["system" if isinstance(event, ev.SystemChanged) else "tools"] = place
            elif isinstance(event, ev.Pass):
                owners.passed(event, place)
                if isinstance(event, ev.HistoryRefreshed | ev.BaselineFolded) and event.cut:
                    owners.covered(event.cut, place, early, late)
        return owners

    def revised(self, event: ev.PartsRevised, place: Owner) -> None:
        """The host changed a message from one part on: what was known of those parts is no longer why they differ."""
        told = msgspec.structs.replace(place, edit=f"revised from part {event.first} on")
        for m, p in list(self.parts):
            if m == event.m and p >= event.first:
                del self.parts[m, p]
        for p in range(event.first, len(event.message.parts)):
            self.parts[event.m, p] = told
        self.messages[event.m] = told

    def passed(self, event: ev.Pass, place: Owner) -> None:
        """A pass sets slots; a fold renders the regions in front anew."""
        edits = [edit for arrival in event.arrivals for edit in arrival.edits]
        if not isinstance(event, ev.PassDeferred):
            edits += event.edits
        for edit in edits:
            p = getattr(edit, "p", -1)
            told = msgspec.structs.replace(place, edit=edit_text(edit, edit.m, p))
            if p < 0:
                self.messages[edit.m] = told
            else:
                self.parts[edit.m, p] = told
        for insert in event.inserts:
            self.regions[f"insert {insert.m}"] = msgspec.structs.replace(place, edit=insert_text(insert))
        if isinstance(event, ev.BaselineFolded):
            for region in ("m0", "m1", "guidance"):
                self.regions[region] = place
        elif isinstance(event, ev.HistoryRefreshed):
            self.regions["m1"] = place

    def covered(self, cut: int, place: Owner, early: _Side, late: _Side) -> None:
        """A head covers all up to the cut: what the earlier pass sent of it is gone, whatever was done to it before."""
        end = late.state.pos.get(cut, -1)
        gone = {m for m in set(early.path) - set(late.path) if 0 <= late.state.pos.get(m, -1) <= end}
        told = msgspec.structs.replace(place, edit="a summary of history stands for it")
        self.messages |= dict.fromkeys(gone - self.hidden, told)
        self.hidden |= gone  # the first to cover it is the one
        self.parts = {(m, p): owner for (m, p), owner in self.parts.items() if m not in gone}

    def of(self, region: str, m: int, p: int) -> Owner:
        """Return the owner of a difference at a place; an empty one where nothing in between touched it."""
        none = Owner()
        if region == "insert":
            return self.regions.get(f"insert {m}", none)
        if region == "system":
            return self._newest(("system", "guidance"))
        if region != "message":
            return self.regions.get(region, none)
        return self.parts.get((m, p), self.messages.get(m, self.moved))

    def _newest(self, names: Iterable[str]) -> Owner:
        return max((self.regions.get(name, Owner()) for name in names), key=lambda owner: owner.version)

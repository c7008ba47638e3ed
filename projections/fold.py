"""Folding a session's stream: state and view together, from the log or from a snapshot of it."""

from __future__ import annotations

import contextlib
import gc
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import msgspec

from ..domain import events as ev
from ..domain.edits import Insert, MessageSlots, PartSlots
from ..domain.errors import StoreDamaged, UnknownTag
from ..domain.session import evolve
from ..domain.state import Fold, Last, Node, Overflow, Refusal, Reminder, Restless, Run, State, Tag, Unit, Usage
from ..domain.transcript import Call, Media, Message, Other, Result, Text, Thinking
from . import view as views

MEANING = 2
"""Counts changes of what the folds mean that their layout does not show."""


def _layout(*kinds: type[msgspec.Struct]) -> str:
    """Return a name for the layout of a snapshot: another layout takes another name, and the old ones are not read."""
    fields = [(kind.__name__, kind.__struct_fields__, sorted(kind.__annotations__.items())) for kind in kinds]
    return f"hot-{MEANING}-{hashlib.sha256(repr(fields).encode()).hexdigest()[:12]}"


_STORED = (
    State,
    Run,
    ev.Compartment,
    Node,
    Tag,
    Usage,
    Fold,
    Last,
    Overflow,
    Reminder,
    Refusal,
    Restless,
    Unit,
    views.View,
    Message,
    Text,
    Call,
    Result,
    Thinking,
    Media,
    Other,
)
FORM = _layout(*_STORED, MessageSlots, PartSlots, Insert, ev.Adopted)


class Place(Protocol):
    """The end of a stream, as a store gives it."""

    version: int
    digest: bytes


class Stored(Protocol):
    """An event with its place, as a store gives it."""

    version: int
    digest: bytes
    event: Any


class Source(Protocol):
    """The reading half of a store."""

    def read(self, stream: str, after: int = 0, until: int | None = None, prev: bytes | None = None) -> Iterator[Any]:
        """Yield stored events, the chain checked."""
        ...

    def chunks(self, digests: Sequence[bytes]) -> list[bytes]:
        """Return bytes by digest, checked."""
        ...

    def head(self, stream: str) -> Any:
        """Return the end of a stream, or None."""
        ...

    def load_snapshot(self, stream: str, form: str, upto: int | None = None) -> tuple[Any, bytes] | None:
        """Return a snapshot, or None."""
        ...


class Folded(msgspec.Struct):
    """Both folds of a stream, the chain digest at their version, and the version of the newest snapshot."""

    state: State
    view: views.View
    digest: bytes = b""
    snapshot: int = 0


def load(source: Source, stream: str, upto: int | None = None, *, snapshots: bool = True) -> Folded:
    """Fold a stream up to a version, from its newest snapshot where that is allowed. Raises ``StoreDamaged``."""
    folded = Folded(State(stream=stream), views.View())
    found = source.load_snapshot(stream, FORM, upto) if snapshots else None
    if found is not None:
        place, body = found
        with _uncollected():
            folded.state, folded.view = msgspec.msgpack.decode(body, type=tuple[State, views.View])
        folded.digest, folded.snapshot = place.digest, place.version
    for stored in source.read(stream, folded.state.version, upto, folded.digest or None):
        take(source, folded, stored, snapshots=snapshots)
    return folded


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Hold the garbage collector off: it would walk a long session several times while it is read, and find nothing."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def take(source: Source, folded: Folded, stored: Any, *, snapshots: bool = True) -> None:
    """Take one stored event into both folds; a fork's first event brings its parent's."""
    if isinstance(stored.event, ev.SessionForked):
        inherit(source, folded, stored.event, snapshots=snapshots)
    evolve(folded.state, stored.version, stored.event)
    views.evolve(folded.view, stored.event, folded.state.pos)
    folded.digest = stored.digest


def inherit(source: Source, folded: Folded, event: ev.SessionForked, *, snapshots: bool = True) -> None:
    """Give a fork its parent's folds at the pinned version. Raises ``StoreDamaged`` where the parent is another now."""
    parent = load(source, event.parent, event.version, snapshots=snapshots)
    if parent.state.version != event.version or parent.digest != event.digest:
        raise StoreDamaged(
            "the session this one was forked from is not what it was; the fork cannot be replayed",
            stream=event.parent,
            version=event.version,
        )
    stream = folded.state.stream
    folded.state, folded.view = parent.state, parent.view
    folded.state.stream, folded.state.version = stream, 0


def passes(source: Source, stream: str) -> Iterable[Any]:
    """Yield the stored pass events of a stream, refusals and replays included."""
    kinds = ev.Pass | ev.PassRefused | ev.LastGoodReplayed
    return (stored for stored in source.read(stream) if isinstance(stored.event, kinds))


def heads(source: Source, stream: str) -> list[tuple[tuple[bytes, ...], tuple[bytes, ...], int]]:
    """Return the heads that were served, the newest first: m[0], m[1] by digests, and the last message they cover."""
    found: list[tuple[tuple[bytes, ...], tuple[bytes, ...], int]] = []
    for stored in passes(source, stream):
        if isinstance(stored.event, ev.BaselineFolded):
            found.append((stored.event.m0, stored.event.m1, stored.event.cut))
        elif isinstance(stored.event, ev.HistoryRefreshed) and found:
            found.append((found[-1][0], stored.event.m1, stored.event.cut))
    return found[::-1]


def find_pass(source: Source, stream: str, number: int | None) -> Any:
    """Return the stored event of a pass that produced a request (None: the last). Raises ``UnknownTag``."""
    last = None
    for stored in passes(source, stream):
        if isinstance(stored.event, ev.PassRefused):
            continue
        last = stored
        if stored.event.number == number:
            return stored
    if number is None and last is not None:
        return last
    raise UnknownTag("this session has no request of that pass", value=number, where=stream)

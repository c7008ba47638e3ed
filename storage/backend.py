"""What the three stores must each do; everything above it (``store.py``) is shared.

Methods raise only errors of ``domain.errors``. Streams stand under a short interned ``key``; rows are plain tuples, so
that reading a long log makes no object per row that nobody asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from ..domain.errors import Conflict, StoreDamaged, StoreError, StoreNewer
from .codec import SCHEMA, Row, head_seal
from .protocol import Head

Hook = Callable[[str], None]
"""Called with ``before``, ``inside`` (in the transaction, before the commit) and ``after`` at every append."""


class Place(NamedTuple):
    """What a store says of the end of a stream. ``version`` -1: no head; ``last`` 0: no events."""

    key: str
    version: int
    digest: bytes
    seal: bytes
    last: int


class Write(NamedTuple):
    """One append: ``rows(prev)`` returns the rows and the digest of the last one, given the head's digest."""

    stream: str
    expected: int
    rows: Callable[[bytes], tuple[list[Row], bytes]]
    chunks: Sequence[tuple[bytes, bytes]]


class Move(NamedTuple):
    """One repair: the head of ``stream`` goes from version ``seen`` (-1: missing) to ``version``.

    ``lost``: events behind ``version`` are put aside (kept, but not part of the stream). ``note`` is kept for good.
    """

    stream: str
    key: str
    seen: int
    version: int
    digest: bytes
    lost: bool
    note: str
    at: int


class Snapshot(NamedTuple):
    """A stored snapshot: its place in the stream, the digest it is checked with, and its packed state."""

    version: int
    digest: bytes
    seal: bytes
    body: bytes


class Backend(Protocol):
    """The primitives of a store."""

    url: str
    ask_from: int
    """From how many bytes of chunks on an append first asks which of them are there already."""

    def place(self, stream: str) -> Place | None: ...
    def streams(self) -> list[tuple[str, str]]:
        """Return (key, stream id) of every stream, in the order they were made."""
        ...

    def heads(self, prefix: str) -> list[Head]: ...
    def rows(self, key: str, first: int, last: int, limit: int) -> list[Row]: ...
    def stored(self, digests: Sequence[bytes]) -> dict[bytes, bytes]: ...
    def present(self, digests: Sequence[bytes]) -> set[bytes]: ...
    def digests(self, after: bytes, limit: int) -> list[bytes]:
        """Return chunk digests greater than ``after``, sorted."""
        ...

    def write(self, write: Write, hook: Hook | None) -> Head: ...
    def put_snapshot(self, stream: str, form: str, snapshot: Snapshot) -> None: ...
    def get_snapshot(self, stream: str, form: str) -> Snapshot | None: ...
    def log(self, after: int, limit: int) -> list[tuple[int, str, int]]:
        """Return (position, key, version) of what was appended behind ``after``."""
        ...

    def move(self, move: Move) -> None: ...
    def strays(self) -> list[tuple[str, str]]:
        """Return (kind, key) of everything no stream owns: keys of events, keys of heads, gaps in the rows."""
        ...

    def integrity(self) -> list[str]:
        """Return what the database itself finds wrong with its files."""
        ...

    def backup(self, target: Path) -> None: ...
    def close(self) -> None: ...


LOST = "lost:"
"""Keys of rows put aside by ``accept_loss`` begin so; no stream has such a key."""


def check_fence(schema: int | None) -> None:
    """Raise ``StoreNewer`` where the store's schema is newer than this program's, naming both versions."""
    if schema is None:
        raise StoreError(
            "the store has lost its version mark; run `foldlog verify` on a copy of it", code="STORE_DAMAGED"
        )
    if schema > SCHEMA:
        raise StoreNewer(
            f"the store has schema version {schema}, this foldlog knows versions up to {SCHEMA}; nothing was read or "
            "written. Install the newer foldlog",
            value=schema,
        )


def check_head(stream: str, expected: int, place: Place) -> None:
    """Raise ``Conflict`` where the stream is not at ``expected``, ``StoreDamaged`` where its head cannot be trusted."""
    check_seal(stream, place)
    if place.version != expected:
        raise Conflict(stream, expected, place.version)
    if place.last > place.version:
        raise StoreDamaged(
            f"the head of the stream is behind its events (it says {place.version}, the last event is {place.last}); "
            "run `foldlog verify --repair`",
            stream=stream,
            version=place.version + 1,
        )


def check_seal(stream: str, place: Place) -> None:
    """Raise ``StoreDamaged`` where the head is missing or is not the one that was written."""
    if place.version < 0:
        raise StoreDamaged(
            "the head of the stream is missing; run `foldlog verify --repair`", stream=stream, version=place.last
        )
    if head_seal(stream, place.version, place.digest) != place.seal:
        raise StoreDamaged(
            "the head of the stream was altered; run `foldlog verify --repair`", stream=stream, version=place.version
        )


def unknown_outcome(detail: str) -> StoreError:
    """Return the error of a commit that failed in a way that leaves open whether it happened."""
    error = StoreError(
        f"whether the append was stored is not known ({detail}); read the stream before appending again",
        code="OUTCOME_UNKNOWN",
    )
    error.recoverable = True
    return error

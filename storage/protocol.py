"""What the engine asks of a store, and the door to the three stores there are.

A store knows nothing of passes. It keeps streams of events with a chain of digests, chunks by digest, heads, snapshots.
All writes of one ``append`` are one transaction: events, heads, chunks, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ..domain.events import Event

MESSAGE_LIMIT = 32 * 1024 * 1024
EVENT_LIMIT = 1024 * 1024
ATTACHMENT_LIMIT = 64 * 1024 * 1024
BUSY_MS = 250
"""How long a write inside a pass may wait for another process's lock (issue 2, section 2)."""


class Chunk(msgspec.Struct, frozen=True):
    """Bytes to be stored once, by their digest.

    ``attachments`` are byte spans of ``data`` (base64 of media) stored as chunks of their own and spliced back.
    ``base`` is the digest of an earlier chunk this one is mostly equal to (a revision): only the middle is stored.
    """

    digest: bytes
    data: bytes
    attachments: tuple[tuple[int, int], ...] = ()
    base: bytes = b""


class Head(msgspec.Struct, frozen=True):
    """The end of a stream: version of its last event (1-based) and that event's chain digest (32 bytes)."""

    stream: str
    version: int
    digest: bytes


class Stored(msgspec.Struct, frozen=True):
    """One event as read back: its place, its own chain digest and its stored position in the whole store."""

    version: int
    digest: bytes
    event: Event


class Notice(msgspec.Struct, frozen=True):
    """One event seen by a follower; ``position`` grows over the whole store and may have gaps."""

    position: int
    stream: str
    version: int


class Fault(msgspec.Struct, frozen=True):
    """One thing ``verify`` found: what is wrong, where, and whether ``--repair`` can mend it."""

    kind: str
    stream: str
    version: int
    message: str
    repairable: bool = False


class Report(msgspec.Struct, frozen=True):
    """What ``verify`` walked and found."""

    streams: int
    events: int
    chunks: int
    faults: tuple[Fault, ...]
    repaired: tuple[Fault, ...] = ()


class Log(Protocol):
    """A store. Thread-safe. Every method raises only errors of ``domain.errors``."""

    url: str

    def append(self, stream: str, expected: int, events: Sequence[Event], chunks: Iterable[Chunk] = ()) -> Head:
        """Append ``events`` behind version ``expected`` (0: the stream is new), with the chunks they name.

        Raises ``Conflict`` when the stream is not at ``expected``, ``StoreBusy`` after ``BUSY_MS`` without the write
        lock, ``StoreNewer`` when the fence moved, ``TooLarge`` over a limit.
        """
        ...

    def read(
        self, stream: str, after: int = 0, until: int | None = None, prev: bytes | None = None
    ) -> Iterator[Stored]:
        """Yield events ``after < version <= until``, checking the chain (``prev``: digest of version ``after``).

        Raises ``StoreDamaged`` with the position of the first event that does not verify (also a cut tail: the head
        says more), ``StoreNewer`` for an unknown tag in a chain that verifies.
        """
        ...

    def head(self, stream: str) -> Head | None:
        """Return where the stream ends, or None if there is no such stream."""
        ...

    def heads(self, prefix: str = "") -> list[Head]:
        """Return the heads of all streams whose id begins with ``prefix``, sorted by id."""
        ...

    def chunks(self, digests: Sequence[bytes]) -> list[bytes]:
        """Return the bytes of each digest. Raises ``StoreDamaged`` for one that is missing or altered."""
        ...

    def save_snapshot(self, stream: str, version: int, digest: bytes, form: str, state: bytes) -> None:
        """Keep ``state`` as the stream's snapshot of ``form``; an older one of that form is replaced."""
        ...

    def load_snapshot(self, stream: str, form: str, upto: int | None = None) -> tuple[Head, bytes] | None:
        """Return the snapshot of ``form`` (not newer than ``upto``), or None; a damaged one counts as none."""
        ...

    def notices(self, after: int, limit: int = 1000) -> list[Notice]:
        """Return what was appended behind position ``after``, oldest first."""
        ...

    def verify(self, *, repair: bool = False, accept_loss: str = "", progress: Any = None) -> Report:
        """Walk every stream and chunk. ``repair`` moves heads forward or restores missing ones, never backward."""
        ...

    def backup(self, target: Path) -> int:
        """Write a consistent copy of the hot store to a new file; return its size in bytes."""
        ...

    def close(self) -> None:
        """Release every connection. Idempotent."""
        ...


def open_log(url: str | None = None) -> Log:
    """Open the store at ``url``: ``sqlite:///path``, ``postgresql://…`` or ``memory:``.

    None: what ``FOLDLOG_DB`` names, or the user's data folder.
    Raises ``OptionError`` for a URL of another kind, ``StoreUnavailable``, ``StoreNewer``.
    """
    from .stores import open_store  # the stores load their drivers, so only the one asked for is imported

    return open_store(url)

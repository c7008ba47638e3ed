"""The log over any backend: the one implementation of ``protocol.Log`` the three stores share."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..domain.errors import InputError, StoreDamaged, StoreNewer
from ..domain.events import Event, HeadLost
from . import content
from .backend import Backend, Hook, Snapshot, Write, check_seal
from .chain import walk
from .codec import Codec, Row, check_stream, encode_event, make_codec, seal_rows, snapshot_seal
from .packing import Unreadable, plain, unpack
from .protocol import Chunk, Fault, Head, Notice, Report, Stored
from .reading import read_chunks
from .verify import verify_store

SNAPSHOT_LIMIT = 1 << 31


class Store:
    """A ``Log``. Thread-safe as its backend is; holds nothing of the log itself."""

    def __init__(self, backend: Backend, hook: Hook | None = None) -> None:
        self.url = backend.url
        self._backend = backend
        self._hook = hook
        self._codec: Codec = make_codec()

    def append(self, stream: str, expected: int, events: Sequence[Event], chunks: Iterable[Chunk] = ()) -> Head:
        """Append ``events`` behind version ``expected`` with their chunks, in one transaction (``Log.append``).

        Besides the errors of the protocol: ``InputError`` for no events at all, an event that could not be read back,
        or a chunk whose digest or spans are wrong; ``StoreDamaged`` where the stream's head cannot be trusted;
        ``StoreError`` with code ``OUTCOME_UNKNOWN`` where the commit itself failed: read before appending again.
        """
        check_stream(stream)
        if not isinstance(expected, int) or isinstance(expected, bool) or expected < 0:
            raise InputError("the expected version must be 0 or more", value=expected, where=stream)
        bodies = [encode_event(self._codec, event, f"{stream} @ {expected + n}") for n, event in enumerate(events, 1)]
        if not bodies:
            raise InputError("there is nothing to append", where=stream)
        # Compressing is the dear part: it is done before the lock is taken, and not at all for what is there already.
        stored = self._encode_chunks(chunks)

        def rows(prev: bytes) -> tuple[list[Row], bytes]:
            return seal_rows(stream, expected, prev, bodies)

        hook = self._hook
        if hook is not None:
            hook("before")
        head = self._backend.write(Write(stream, expected, rows, stored), hook)
        if hook is not None:
            hook("after")
        return head

    def _encode_chunks(self, chunks: Iterable[Chunk]) -> list[tuple[bytes, bytes]]:
        fresh: dict[bytes, tuple[Chunk, list[content.Span]]] = {}
        for number, chunk in enumerate(chunks):
            if chunk.digest not in fresh:
                fresh[chunk.digest] = chunk, content.check_chunk(chunk, f"chunks[{number}]")
        if not fresh:
            return []
        if sum(len(chunk.data) for chunk, _ in fresh.values()) >= self._backend.ask_from:
            for digest in self._backend.present(list(fresh)):
                del fresh[digest]
        out: dict[bytes, bytes] = {}
        for digest, (chunk, spans) in fresh.items():
            base = self._base(chunk, fresh, out) if chunk.base and chunk.base != digest else None
            for name, body in content.encode_chunk(self._codec.packer, chunk, spans, base):
                out.setdefault(name, body)
        return list(out.items())

    def _base(
        self, chunk: Chunk, fresh: dict[bytes, tuple[Chunk, list[content.Span]]], out: dict[bytes, bytes]
    ) -> content.Base | None:
        # A base that is missing or damaged is no reason to refuse a message: it is then stored whole.
        try:
            if chunk.base in out:
                return content.Base(fresh[chunk.base][0].data, content.depth(out[chunk.base]))
            stored = self._backend.stored([chunk.base])
            if chunk.base in stored:
                plain = read_chunks(self._backend, self._codec.packer, [chunk.base])[0]
                return content.Base(plain, content.depth(stored[chunk.base]))
        except (StoreDamaged, Unreadable, KeyError):
            return None
        return None

    def read(
        self, stream: str, after: int = 0, until: int | None = None, prev: bytes | None = None
    ) -> Iterator[Stored]:
        """Yield verified events (``Log.read``); an event is handed out only once its successor or the head confirms it.

        A stream that does not exist yields nothing, unless ``after`` says that it did. Events in front of the position
        a ``StoreDamaged`` names may be held back where nothing confirms them.
        """
        check_stream(stream)
        place = self._backend.place(stream)
        if place is None or (place.version == 0 and place.last == 0):
            if after > 0:
                raise StoreDamaged("the stream is missing", stream=stream, version=1)
            return
        check_seal(stream, place)
        key = place.key

        def fetch(first: int, last: int, limit: int) -> list[Row]:
            return self._backend.rows(key, first, last, limit)

        for batch, fault in walk(self._codec, stream, place, fetch, max(after, 0), until, prev):
            yield from batch
            if fault is not None:
                raise fault_error(fault)

    def head(self, stream: str) -> Head | None:
        """Return where the stream ends, or None. Raises ``StoreDamaged`` where its head is missing or altered."""
        place = self._backend.place(check_stream(stream))
        if place is None or (place.version == 0 and place.last == 0):
            return None
        check_seal(stream, place)
        return Head(stream, place.version, place.digest)

    def heads(self, prefix: str = "") -> list[Head]:
        """Return the heads of all streams whose id begins with ``prefix``, by id; damaged ones are for ``verify``."""
        if prefix:
            check_stream(prefix)
        return sorted((head for head in self._backend.heads(prefix) if head.version > 0), key=lambda head: head.stream)

    def chunks(self, digests: Sequence[bytes]) -> list[bytes]:
        """Return the bytes of each digest, checked. Raises ``StoreDamaged`` for one that is missing or altered."""
        return read_chunks(self._backend, self._codec.packer, digests)

    def save_snapshot(self, stream: str, version: int, digest: bytes, form: str, state: bytes) -> None:
        """Keep ``state`` as the stream's snapshot of ``form``; an older one of that form is replaced.

        It is stored plain: a third of it is digests, which do not shrink, and opening would wait for the rest.
        Raises ``InputError`` where there is no such stream, or its chain digest is not 32 bytes.
        """
        check_stream(stream)
        if len(digest) != 32:
            raise InputError("a chain digest has 32 bytes", value=digest, where=stream)
        seal = snapshot_seal(stream, form, version, digest, state)
        self._backend.put_snapshot(stream, form, Snapshot(version, digest, seal, plain(state)))

    def load_snapshot(self, stream: str, form: str, upto: int | None = None) -> tuple[Head, bytes] | None:
        """Return the snapshot of ``form`` (not newer than ``upto``), or None; a damaged one counts as none."""
        found = self._backend.get_snapshot(check_stream(stream), form)
        if found is None or (upto is not None and found.version > upto):
            return None
        try:
            state = unpack(self._codec.packer, found.body, SNAPSHOT_LIMIT)
        except Unreadable:
            return None
        if snapshot_seal(stream, form, found.version, found.digest, state) != found.seal:
            return None
        return Head(stream, found.version, found.digest), state

    def notices(self, after: int, limit: int = 1000) -> list[Notice]:
        """Return what was appended behind position ``after``, oldest first.

        Raises ``StoreBusy`` where writers in flight keep a PostgreSQL store from saying what is complete.
        Positions grow in commit order and may have gaps; no later call returns one at or before these.
        """
        while found := self._backend.log(after, limit):
            names = dict(self._backend.streams())
            seen = [Notice(position, names[key], version) for position, key, version in found if key in names]
            if seen:
                return seen
            # All of this page was put aside by a repair: an empty answer would tell the follower that it is at the end.
            after = found[-1][0]
        return []

    def verify(self, *, repair: bool = False, accept_loss: str = "", progress: Any = None) -> Report:
        """Walk every stream and chunk (``verify.verify_store``)."""
        place = self._backend.place(accept_loss) if accept_loss else None
        report = verify_store(self._backend, self._codec, repair=repair, accept_loss=accept_loss, progress=progress)
        lost = any(fault.stream == accept_loss and not fault.repairable for fault in report.repaired)
        after = self.head(accept_loss) if lost else None
        if place is not None and after is not None:
            # going backward is itself an event (convention 15)
            event = HeadLost(int(time.time() * 1000), "", max(place.version, place.last, 0), after.version)
            self.append(accept_loss, after.version, [event])
        return report

    def backup(self, target: Path) -> int:
        """Write a consistent copy of the hot store to a new SQLite file; return its size in bytes.

        Raises ``InputError`` where ``target`` exists already, ``StoreUnavailable`` where it cannot be written.
        """
        path = Path(target)
        self._backend.backup(path)
        return path.stat().st_size

    def close(self) -> None:
        """Release every connection. Idempotent."""
        self._backend.close()


def fault_error(fault: Fault) -> StoreDamaged | StoreNewer:
    """Return the error that stops replay where a walk found ``fault``."""
    if fault.kind == "event-newer":
        return StoreNewer(fault.message, where=f"{fault.stream} @ {fault.version}")
    said = f"{fault.message}; run `foldlog verify` to see what can be done"
    return StoreDamaged(said, stream=fault.stream, version=fault.version)

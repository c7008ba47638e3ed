"""The store in memory, over the library's in-memory recorder: same contract, gone with the process."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from eventsourcing.persistence import StoredEvent
from eventsourcing.popo import POPOApplicationRecorder

from ..domain.errors import Conflict, InputError, StoreBusy, StoreUnavailable
from .backend import LOST, Hook, Move, Place, Snapshot, Write, check_fence, check_head
from .codec import SCHEMA, Row, head_seal
from .copying import copy_store
from .protocol import BUSY_MS, Head


class Recorder(POPOApplicationRecorder):
    """The library's lists, read by index: its own reads walk a whole stream."""

    def lock(self) -> threading.RLock:
        """Return the lock all of the library's methods take."""
        return self._database_lock

    def versions(self, key: str) -> dict[int, int]:
        """Return version to position (0-based) of one stream; empty where there is none."""
        return self._stored_events_index.get(key, {})

    def event(self, position: int) -> StoredEvent:
        """Return the event at a position (0-based)."""
        return self._stored_events[position]

    def replace(self, position: int, event: StoredEvent) -> None:
        """Put another event at a position; used to put lost events aside."""
        old = self._stored_events[position]
        del self._stored_events_index[str(old.originator_id)][old.originator_version]
        self._stored_events[position] = event
        self._stored_events_index[str(event.originator_id)][event.originator_version] = position

    def count(self) -> int:
        """Return how many events were ever stored."""
        return len(self._stored_events)


class MemoryBackend:
    """A ``Backend`` in this process's memory. One lock guards all of it; what is handed out are immutable values."""

    ask_from = 0

    def __init__(self) -> None:
        self.url = "memory:"
        self.recorder = Recorder()
        self.meta: dict[str, int | str] = {"schema": SCHEMA, "store": uuid.uuid4().hex}
        self.keys: dict[str, str] = {}
        self.ends: dict[str, tuple[int, bytes, bytes]] = {}
        self.bodies: dict[bytes, bytes] = {}
        self.snapshots: dict[tuple[str, str], Snapshot] = {}
        self.repairs: list[Move] = []
        self.closed = False

    @contextmanager
    def _locked(self, *, writing: bool = False) -> Iterator[None]:
        # Only writes are bounded: a lock is not fair, and a reader that loses to a busy writer is not to fail for it.
        if not self.recorder.lock().acquire(timeout=BUSY_MS / 1000 if writing else -1):
            raise StoreBusy(f"another thread held the store longer than {BUSY_MS} ms; nothing was stored. Try again")
        try:
            if self.closed:
                raise StoreUnavailable("the store is closed", value=self.url)
            schema = self.meta.get("schema")
            check_fence(schema if isinstance(schema, int) else None)
            yield
        finally:
            self.recorder.lock().release()

    def write(self, write: Write, hook: Hook | None) -> Head:
        stream, expected = write.stream, write.expected
        with self._locked(writing=True):
            place = self.place(stream)
            if place is None:
                if expected:
                    raise Conflict(stream, expected, 0)
                place = Place(str(len(self.keys) + 1), 0, bytes(32), head_seal(stream, 0, bytes(32)), 0)
            check_head(stream, expected, place)
            rows, digest = write.rows(place.digest)
            if hook is not None:
                hook("inside")
            # Nothing below can fail, so nothing has to be taken back.
            self.keys[stream] = place.key
            self.recorder.insert_events(
                [StoredEvent(place.key, version, tag.decode(), state) for version, tag, state in rows]
            )
            for name, body in write.chunks:
                self.bodies.setdefault(name, body)
            version = rows[-1][0]
            self.ends[place.key] = version, digest, head_seal(stream, version, digest)
        return Head(stream, version, digest)

    def put_snapshot(self, stream: str, form: str, snapshot: Snapshot) -> None:
        with self._locked(writing=True):
            if stream not in self.keys:
                raise InputError("there is no such stream", value=stream, where="stream")
            self.snapshots[stream, form] = snapshot

    def move(self, move: Move) -> None:
        with self._locked(writing=True):
            place = self.place(move.stream)
            if place is None or place.version != move.seen:
                raise Conflict(move.stream, move.seen, place.version if place else 0)
            self.repairs.append(move)
            if move.lost:
                aside = f"{LOST}{len(self.repairs)}:{move.key}"
                lost = [(v, p) for v, p in self.recorder.versions(move.key).items() if v > move.version]
                for version, position in lost:
                    event = self.recorder.event(position)
                    self.recorder.replace(position, StoredEvent(aside, version, event.topic, event.state))
            seal = head_seal(move.stream, move.version, move.digest)
            self.ends[move.key] = move.version, move.digest, seal

    def place(self, stream: str) -> Place | None:
        with self._locked():
            key = self.keys.get(stream)
            if key is None:
                return None
            version, digest, seal = self.ends.get(key, (-1, b"", b""))
            versions = self.recorder.versions(key)
            whole = version in versions and version + 1 not in versions
            return Place(key, version, digest, seal, version if whole else max(versions, default=0))

    def streams(self) -> list[tuple[str, str]]:
        with self._locked():
            return [(key, name) for name, key in self.keys.items()]

    def heads(self, prefix: str) -> list[Head]:
        with self._locked():
            return [
                Head(name, *self.ends[key][:2])
                for name, key in self.keys.items()
                if name.startswith(prefix) and key in self.ends
            ]

    def rows(self, key: str, first: int, last: int, limit: int) -> list[Row]:
        with self._locked():
            versions = self.recorder.versions(key)
            wanted = (version for version in range(first, last + 1) if version in versions)
            found = (self.recorder.event(versions[version]) for version, _ in zip(wanted, range(limit), strict=False))
            return [(event.originator_version, event.topic.encode(), event.state) for event in found]

    def stored(self, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        with self._locked():
            return {digest: self.bodies[digest] for digest in digests if digest in self.bodies}

    def present(self, digests: Sequence[bytes]) -> set[bytes]:
        with self._locked():
            return {digest for digest in digests if digest in self.bodies}

    def digests(self, after: bytes, limit: int) -> list[bytes]:
        with self._locked():
            return sorted(digest for digest in self.bodies if digest > after)[:limit]

    def get_snapshot(self, stream: str, form: str) -> Snapshot | None:
        with self._locked():
            return self.snapshots.get((stream, form))

    def log(self, after: int, limit: int) -> list[tuple[int, str, int]]:
        with self._locked():
            notes = self.recorder.select_notifications(max(after, 0), limit, inclusive_of_start=False)
            return [(note.id, str(note.originator_id), note.originator_version) for note in notes]

    def strays(self) -> list[tuple[str, str]]:
        with self._locked():
            known = set(self.keys.values())
            events = {str(self.recorder.event(n).originator_id) for n in range(self.recorder.count())}
            found = [("event", key) for key in sorted(events - known) if not key.startswith(LOST)]
            return found + [("head", key) for key in self.ends if key not in known]

    def integrity(self) -> list[str]:
        return []

    def backup(self, target: Path) -> None:
        copy_store(self, target)

    def close(self) -> None:
        self.closed = True

"""Walking a whole store: what ``foldlog verify`` finds and mends (convention 15)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from ..domain.errors import InputError, StoreDamaged
from ..domain.events import PurgeRequested
from .backend import Backend, Move, Place
from .chain import walk
from .codec import GENESIS, Codec, Row, head_seal
from .protocol import Fault, Report
from .reading import read_chunks
from .references import named_chunks

Progress = Callable[[str, int, int], None]
"""Called with what is walked (``streams`` or ``chunks``), how many are done, and how many there are (0: unknown)."""

PAGE = 64


def verify_store(
    backend: Backend, codec: Codec, *, repair: bool = False, accept_loss: str = "", progress: Progress | None = None
) -> Report:
    """Walk every stream and chunk and report what is wrong; without a key this finds damage, not a determined forger.

    ``repair`` writes a head that is missing, altered or behind, after a complete walk of its stream, never backward.
    ``accept_loss`` names one stream whose head may move back to its last verified event: the events behind that are put
    aside, not deleted, and the move is recorded. Raises ``InputError`` where there is no such stream.
    """
    faults = [Fault("database", "", 0, f"the database finds: {text}") for text in backend.integrity()]
    faults += [_stray(kind, key) for kind, key in backend.strays()]
    repaired: list[Fault] = []
    streams = backend.streams()
    if accept_loss and accept_loss not in {name for _, name in streams}:
        raise InputError("there is no such stream", value=accept_loss, where="accept_loss")
    events = 0
    purged: set[bytes] = set()
    missing: dict[bytes, Fault] = {}
    for done, (_, stream) in enumerate(streams):
        if progress is not None:
            progress("streams", done, len(streams))
        walked = _Stream(backend, codec, stream, purged, missing)
        events += walked.events
        fault = walked.fault
        if fault is None:
            continue
        loss = stream == accept_loss and fault.kind != "event-newer"
        if (repair and fault.repairable) or loss:
            _mend(backend, walked, lost=loss and not fault.repairable)
            repaired.append(fault)
        else:
            faults.append(fault)
    faults += [fault for digest, fault in missing.items() if digest not in purged]
    count, bad = _chunks(backend, codec, progress)
    return Report(len(streams), events, count, (*faults, *bad), tuple(repaired))


class _Stream:
    """One stream walked to its end: what was good (``version``, ``digest``), how many events, and the first fault."""

    def __init__(
        self, backend: Backend, codec: Codec, stream: str, purged: set[bytes], missing: dict[bytes, Fault]
    ) -> None:
        self.stream, self.events, self.version, self.digest = stream, 0, 0, GENESIS
        self.fault: Fault | None = None
        place = backend.place(stream)
        assert place is not None, "a listed stream has a place"
        self.place: Place = place
        sealed = place.version >= 0 and head_seal(stream, place.version, place.digest) == place.seal
        # Walked to the last row there is; the head is compared where it says it stands.
        ahead = place.last > place.version
        target = place if sealed and not ahead else place._replace(version=place.last, digest=b"")

        def fetch(first: int, last: int, limit: int) -> list[Row]:
            return backend.rows(place.key, first, last, limit)

        at_head = GENESIS if place.version == 0 else None
        for batch, fault in walk(codec, stream, target, fetch, 0, None, None):
            refs: dict[bytes, int] = {}
            for stored in batch:
                self.version, self.digest = stored.version, stored.digest
                if stored.version == place.version:
                    at_head = stored.digest
                if type(stored.event) is PurgeRequested:
                    purged.update(stored.event.chunks)
                for digest in named_chunks(stored.event):
                    refs.setdefault(digest, stored.version)
            self.events += len(batch)
            for digest in refs.keys() - backend.present(list(refs)):
                text = f"the event names the chunk {digest.hex()}, which is missing"
                missing.setdefault(digest, Fault("chunk-missing", stream, refs[digest], text))
            self.fault = fault
        if self.fault is None:
            self.fault = _head_fault(stream, place, sealed, at_head)


def _head_fault(stream: str, place: Place, sealed: bool, at_head: bytes | None) -> Fault | None:
    if place.version < 0:
        if place.last == 0:
            return Fault(
                "stream-missing", stream, 0, "the stream was deleted: its name is known, its events and head are gone"
            )
        return Fault("head-missing", stream, place.last, "the head of the stream is missing", True)
    if not sealed:
        mendable = 0 < place.version <= place.last
        text = f"the head of the stream was altered: it says version {place.version}, the last event is {place.last}"
        return Fault("head-altered", stream, place.version, text, mendable)
    if place.last > place.version:
        if at_head != place.digest:
            return Fault(
                "event-altered", stream, place.version, "the stored event was altered: the head names another digest"
            )
        text = f"the head of the stream is behind its events: it says {place.version}, the last event is {place.last}"
        return Fault("head-behind", stream, place.version + 1, text, True)
    return None


def _mend(backend: Backend, walked: _Stream, *, lost: bool) -> None:
    fault, place = walked.fault, walked.place
    assert fault is not None
    # A fault's own event is not kept even where the walk could read it: nothing confirms it.
    version, digest = walked.version, walked.digest
    note = f"{fault.kind} at {fault.version}: head moved from {place.version} to {version}, digest {digest.hex()}"
    backend.move(Move(walked.stream, place.key, place.version, version, digest, lost, note, int(time.time() * 1000)))


def _stray(kind: str, key: str) -> Fault:
    texts = {
        "event": f"events are stored under key {key!r}, which belongs to no stream: the stream's name was deleted",
        "head": f"a head is stored under key {key!r}, which belongs to no stream: the stream's name was deleted",
        "gap": f"stored events were removed: {key}",
        "name": f"the names of streams were removed: {key}",
    }
    return Fault("stray-" + kind, "", 0, texts[kind])


def _chunks(backend: Backend, codec: Codec, progress: Progress | None) -> tuple[int, list[Fault]]:
    faults: list[Fault] = []
    digests = backend.digests(b"", sys.maxsize)  # listed once: a store that goes on growing is not waited for
    for at in range(0, len(digests), PAGE):
        page = digests[at : at + PAGE]
        if progress is not None:
            progress("chunks", at, len(digests))
        try:
            read_chunks(backend, codec.packer, page)
        except StoreDamaged:
            for digest in page:
                _try(backend, codec, digest, faults)
    return len(digests), faults


def _try(backend: Backend, codec: Codec, digest: bytes, faults: list[Fault]) -> None:
    try:
        read_chunks(backend, codec.packer, [digest])
    except StoreDamaged as error:
        fault = Fault("chunk-altered", "", 0, error.message)
        if fault not in faults:
            faults.append(fault)

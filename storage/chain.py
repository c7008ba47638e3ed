"""Walking a stream and checking its chain (``design.md`` 3, Chain; convention 1).

An event is handed out only when its successor, or the head, confirms it: what an event says of itself proves nothing.
The chain is checked before the tag is looked up, so an altered topic is damage and not a newer store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from struct import Struct

import msgspec

from .backend import Place
from .codec import BODY_AT, GENESIS, KINDS, Codec, Row, chain_digest, chain_prefix, plain_body
from .packing import Unreadable
from .protocol import Fault, Stored

BATCH = 1024
Fetch = Callable[[int, int, int], list[Row]]
"""``fetch(first, last, limit)`` returns rows of the stream in order."""

_PLACE = Struct(">QB")


def walk(
    codec: Codec, stream: str, place: Place, fetch: Fetch, after: int, until: int | None, prev: bytes | None
) -> Iterator[tuple[list[Stored], Fault | None]]:
    """Yield batches of verified events ``after < version <= until``; a fault ends the walk.

    ``place.digest`` may be empty: then nothing confirms the last event but its own shape.
    """
    head = place.version
    stop = head if until is None else min(until, head)
    if after > head:
        yield [], _cut(stream, head + 1, f"the stream ends at version {head}, but version {after} was there before")
        return
    running: bytes = GENESIS
    if after:
        known = _digest_at(codec, stream, fetch, after)
        if known is None:
            yield [], Fault("event-missing", stream, after, "the event is missing or cannot be read")
            return
        if prev is not None and prev != known:
            yield [], Fault("event-altered", stream, after, "the event is not the one that was read before")
            return
        running = known
        if after == head and place.digest and known != place.digest:
            yield [], _last(stream, head)
            return
    end = min(stop + 1, head)
    checker = _Checker(codec, stream, place, fetch, running, after + 1, stop)
    while checker.want <= end and after < stop:
        first = checker.want
        batch = fetch(first, end, BATCH)
        out: list[Stored] = []
        fault = checker.feed(batch, out)
        if fault is None and (not batch or checker.want == first):
            fault = checker.gap(out)
        if fault is None and checker.want > head:
            fault = checker.finish(out)
        yield out, fault
        if fault is not None:
            return
    if (until is None or until > head) and place.last > head:
        message = (
            f"the head of the stream is behind its events: it says version {head}, the last event is {place.last}; "
            "run `foldlog verify --repair`"
        )
        yield [], Fault("head-behind", stream, head + 1, message, True)


class _Checker:
    """The running state of one walk: the digest so far and the event that is not yet confirmed."""

    def __init__(
        self, codec: Codec, stream: str, place: Place, fetch: Fetch, running: bytes, want: int, stop: int
    ) -> None:
        self.codec, self.stream, self.place, self.fetch = codec, stream, place, fetch
        self.running, self.want, self.stop = running, want, stop
        self.prefix = chain_prefix(stream)
        self.tag = self.body = b""

    def feed(self, batch: list[Row], out: list[Stored]) -> Fault | None:
        """Check ``batch`` and put the events it confirms into ``out``."""
        # This loop is the cost of opening a long session: names are local, nothing is called that need not be.
        codec, prefix, place_of, kinds, stop_at = self.codec, self.prefix, _PLACE.pack, dict(KINDS), self.stop + 1
        digest, join, stored = sha256, b"".join, Stored
        decode, running, want, tag, body = codec.decoder.decode, self.running, self.want, self.tag, self.body
        add = out.append
        for version, new_tag, state in batch:
            if version != want:
                self.running, self.want, self.tag, self.body = running, want, tag, body
                return self.gap(out)
            if state is None or new_tag is None or state[1:BODY_AT] != running:
                self.running, self.want, self.tag, self.body = running, want, tag, body
                return self.blame(new_tag, state)
            if tag and want <= stop_at:
                kind = kinds.get(tag)
                if kind is None:
                    return _unknown(self.stream, want - 1, tag)
                try:
                    event = decode(body)
                except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                    return _unknown(self.stream, want - 1, tag, str(error))
                if type(event) is not kind:
                    return _altered(self.stream, want - 1, "its topic is not the tag of its body")
                add(stored(want - 1, running, event))
            body = state[BODY_AT:]
            if state[0]:
                try:
                    body = plain_body(codec, state)
                except Unreadable as error:
                    return _altered(self.stream, want, str(error))
            tag = new_tag
            size = len(tag)
            if not 0 < size < 256:
                return _altered(self.stream, want, "its topic is empty or too long")
            running = digest(join((prefix, running, place_of(want, size), tag, body))).digest()
            want += 1
        self.running, self.want, self.tag, self.body = running, want, tag, body
        return None

    def confirm(self, out: list[Stored]) -> Fault | None:
        """Hand out the event that was waiting for its successor."""
        if not self.tag or self.want - 1 > self.stop:
            return None
        version, kind = self.want - 1, KINDS.get(self.tag)
        if kind is None:
            return _unknown(self.stream, version, self.tag)
        try:
            event = self.codec.decoder.decode(self.body)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            return _unknown(self.stream, version, self.tag, str(error))
        if type(event) is not kind:
            return _altered(self.stream, version, "its topic is not the tag of its body")
        out.append(Stored(version, self.running, event))
        self.tag = b""
        return None

    def gap(self, out: list[Stored]) -> Fault:
        """Say that event ``want`` is not there; the one before it is handed out if it can be read at all."""
        before: list[Stored] = []
        if self.confirm(before) is not None:
            return _altered(self.stream, self.want - 1, "it cannot be read, and the event behind it is missing")
        out += before
        if self.place.last < self.want:
            message = f"its last events are missing: the head says version {self.place.version}"
            return _cut(self.stream, self.want, message)
        return Fault("event-missing", self.stream, self.want, "the event was removed; events behind it are still there")

    def blame(self, tag: bytes | None, state: bytes | None) -> Fault:
        """Name the event at fault where event ``want`` does not continue the chain: itself or the one before."""
        version, own = self.want, None
        if tag and state and len(state) >= BODY_AT and len(tag) < 256:
            try:
                body = plain_body(self.codec, state)
            except Unreadable:
                pass
            else:
                own = chain_digest(self.prefix, version, tag, state[1:BODY_AT], body)
        if own is not None and self.tag:
            after = self.fetch(version + 1, version + 1, 1) if version < self.place.version else []
            said = after[0][2][1:BODY_AT] if after and after[0][2] else None
            if version == self.place.version and self.place.digest:
                said = self.place.digest
            if said == own:
                return _altered(self.stream, version - 1, "the event behind it names another digest")
        return _altered(self.stream, version, "it does not continue the chain of the events before it")

    def finish(self, out: list[Stored]) -> Fault | None:
        """Compare the end of the walk with the head, then hand out the last event."""
        if self.place.digest and self.running != self.place.digest:
            return _last(self.stream, self.want - 1)
        return self.confirm(out)


def _digest_at(codec: Codec, stream: str, fetch: Fetch, version: int) -> bytes | None:
    rows = fetch(version, version, 1)
    if not rows or not rows[0][1] or not rows[0][2]:
        return None
    _, tag, state = rows[0]
    try:
        body = plain_body(codec, state)
    except Unreadable:
        return None
    return chain_digest(chain_prefix(stream), version, tag, state[1:BODY_AT], body) if len(tag) < 256 else None


def _altered(stream: str, version: int, why: str) -> Fault:
    return Fault("event-altered", stream, version, f"the stored event was altered: {why}")


def _last(stream: str, version: int) -> Fault:
    return Fault("event-altered", stream, version, "the stored event was altered: the head names another digest")


def _cut(stream: str, version: int, why: str) -> Fault:
    return Fault("tail-cut", stream, version, why)


def _unknown(stream: str, version: int, tag: bytes, detail: str = "") -> Fault:
    more = f" ({detail})" if detail else ""
    name = tag.decode("utf-8", "backslashreplace")
    return Fault(
        "event-newer",
        stream,
        version,
        f"the event is whole but of a form this foldlog does not know: tag {name!r}{more}; install the newer foldlog",
    )

"""One pass end to end: observe, decide, project, append, evolve; conflicts and needs. Nothing else.

A ``Session`` is hot state over one stream. The state is a fold of stored events only: what a pass would change is
reckoned beside it, stored, and taken in afterwards; whatever fails before that leaves the session as it was.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from .domain import events as ev
from .domain import identity, pairing
from .domain.errors import Conflict, InputError, LawBroken, MessageError, OptionError, Refused, StoreError
from .domain.passes.decide import Decided, Given, Need, decide
from .domain.session import State, evolve
from .domain.transcript import Message
from .projections import head, request, view
from .projections.intake import Intake, Options, Reader
from .projections.wire import CURRENT, wire
from .storage.protocol import Chunk, Log

ATTEMPTS = 5
SNAPSHOT_EVERY = 1_000
FORM = "hot-1"
"""Names the layout of a snapshot; another layout takes another name and old snapshots are rebuilt."""


class Hot(msgspec.Struct):
    """A session in memory: both folds, what the host last sent, and the chain along the path."""

    state: State
    view: view.View
    received: list[bytes | None] = msgspec.field(default_factory=list)
    chain: list[bytes] = msgspec.field(default_factory=list)
    prefix: bytes = b""
    snapshot: int = 0


class Session:
    """One session of one host. Thread-safe. Make it with ``Engine.session``."""

    def __init__(self, log: Log, stream: str, options: Options, reader: Reader, clock: Callable[[], int]) -> None:
        self._log = log
        self._stream = stream
        self._options = options
        self._reader = reader
        self._clock = clock
        self._lock = threading.RLock()
        self._hot: Hot | None = None
        self._bodies: dict[bytes, bytes] = {}
        self._texts: dict[bytes, bytes] = {}
        self._again: tuple[int, Any, Produced | Refused] | None = None

    # ------------------------------------------------------------------ reading

    def hot(self) -> Hot:
        """Return the session in memory, loaded from its log where it is not there yet."""
        with self._lock:
            if self._hot is None:
                self._hot = load(self._log, self._stream)
            return self._hot

    def body(self, digest: bytes) -> bytes:
        """Return a message's raw bytes as first served. Raises ``StoreDamaged``."""
        found = self._bodies.get(digest)
        if found is None:
            found = self._bodies[digest] = self._log.chunks([digest])[0]
        return found

    def text(self, digest: bytes) -> bytes:
        """Return a chunk of ours: head, guidance, system, tools."""
        found = self._texts.get(digest)
        if found is None:
            found = self._texts[digest] = self._log.chunks([digest])[0]
        return found

    # ------------------------------------------------------------------- passes

    def prepare(self, messages: Any, system: Any, tools: Any, now: int | None) -> Produced:
        """Take the whole array, return what to send. See ``foldlog.Session.prepare``."""
        with self._lock:
            raws = self._reader.raws(messages)
            if not raws:
                raise MessageError("the array of messages is empty; there is nothing to send", value=messages)
            return self._pass(("prepare", raws, system, tools), now, lambda hot: self._whole(hot, raws, system, tools))

    def advance(self, new: Any, revised: Sequence[Any], retracted: Sequence[Any], now: int | None) -> Produced:
        """Take only what is new, return what to send. See ``foldlog.Session.advance``."""
        with self._lock:
            raws = self._reader.raws(new)
            changed = [(handle, self._reader.raw(message, f"revised[{i}]")) for i, (handle, message) in enumerate(revised)]
            return self._pass(None, now, lambda hot: self._increment(hot, raws, changed, retracted))

    def _pass(self, same: Any, now: int | None, observe: Callable[[Hot], Intake]) -> Produced:
        command = secrets.token_urlsafe(9)
        at = self._clock()
        self._ensure_open(at)
        hot = self.hot()
        if same is not None and self._again is not None and self._again[:2] == (hot.state.version, same):
            if isinstance(self._again[2], Refused):
                raise self._again[2]
            return self._again[2]
        for _ in range(ATTEMPTS):
            hot = self.hot()
            intake = observe(hot)
            plan = self._plan(hot, intake, command, at, now)
            try:
                produced = self._commit(hot, intake, plan, now is not None)
            except Conflict:
                done = self._catch_up(command)
                if done is not None:
                    return done
                continue
            except Refused as refusal:
                self._again = (self.hot().state.version, same, refusal)
                raise
            self._again = (hot.state.version, same, produced)
            return produced
        raise Conflict(self._stream, hot.state.version, self.hot().state.version)

    def _whole(self, hot: Hot, raws: list[bytes], system: Any, tools: Any) -> Intake:
        leading = wire(CURRENT).split_system(hot.state.codec, raws)
        intake = Intake(self._reader, self._options, hot.state)
        intake.regions(raws[:leading], system, tools)
        rest = raws[leading:]
        keep = self._same(hot, rest)
        read = [self._reader.read(hot.state.codec, raw, leading + keep + j) for j, raw in enumerate(rest[keep:])]

        def common(m: int, j: int) -> int:
            old = self._reader.idents(hot.state.codec, self.body(hot.state.node(m).message.body))
            return next((i for i, (a, b) in enumerate(zip(old, read[j].part_idents, strict=False)) if a != b), min(len(old), len(read[j].part_idents)))

        intake.seen = identity.align(hot.state, keep, [one.message for one in read], common, self._clock())
        intake.read = read
        intake.received = rest
        return intake

    def _increment(
        self, hot: Hot, raws: list[bytes], changed: list[tuple[Any, bytes]], retracted: Sequence[Any]
    ) -> Intake:
        state = hot.state
        intake = Intake(self._reader, self._options, state)
        intake.regions([], None, None)
        offset = len(state.path)
        read = [self._reader.read(state.codec, raw, offset + j) for j, raw in enumerate(raws)]
        revised = []
        for place, (handle, raw) in enumerate(changed):
            m = self._handle(state, handle, f"revised[{place}]")
            one = self._reader.read(state.codec, raw, state.pos[m])
            old = self._reader.idents(state.codec, self.body(state.node(m).message.body))
            if one.message.ident == state.node(m).message.ident:
                continue
            first = next((i for i, (a, b) in enumerate(zip(old, one.part_idents, strict=False)) if a != b), min(len(old), len(one.part_idents)))
            revised.append((m, first, one.message))
            intake.changed[m] = one
        gone = [self._handle(state, handle, f"retracted[{place}]") for place, handle in enumerate(retracted)]
        intake.seen = identity.edit(state, revised, gone, [one.message for one in read], self._clock())
        intake.read = read
        if not intake.seen.keep + len(intake.seen.tail):
            raise MessageError("nothing would be left to send")
        return intake

    def _same(self, hot: Hot, raws: list[bytes]) -> int:
        """Return how many leading messages are those of the head's path; O(1) a message where the bytes are equal."""
        state, received = hot.state, hot.received
        received.extend([None] * (len(state.path) - len(received)))
        limit = min(len(raws), len(state.path))
        if received[:limit] == raws[:limit]:
            return limit
        for index in range(limit):
            if received[index] == raws[index]:
                continue
            known = state.node(state.path[index]).message
            one = self._reader.read(state.codec, raws[index], index)
            if one.message.ident != known.ident or one.message.host_id != known.host_id:
                return index
            received[index] = raws[index]
        return limit

    @staticmethod
    def _handle(state: State, handle: Any, where: str) -> int:
        m = state.hosts.get(handle, 0) if isinstance(handle, str) else handle
        if isinstance(m, bool) or not isinstance(m, int) or m not in state.pos:
            raise MessageError("no message of this session has that handle, or it is not in the present request", value=handle, where=where)
        return m

    def _plan(self, hot: Hot, intake: Intake, command: str, at: int, now: int | None) -> Decided:
        state, seen = hot.state, intake.seen
        self._check_pairs(state, seen)
        given = Given(
            at=at,
            now=at if now is None else now,
            cmd=command,
            wire=CURRENT,
            seen=seen,
            events=tuple(intake.events),
            model=intake.model,
            context_limit=intake.context_limit,
            output_limit=intake.output_limit,
            policy=intake.policy,
            system_hash=intake.system_hash,
            system_tokens=intake.system_tokens,
            tools_names=intake.tools_names,
            tools_tokens=intake.tools_tokens,
        )
        answer = decide(state, given)
        if isinstance(answer, Need):
            answer = decide(state, given, head.render(state, self._reader.count, managed=intake.compaction))
        if isinstance(answer, Need):
            raise LawBroken("the decision asks a second time for what it was given")
        return answer

    def _check_pairs(self, state: State, seen: identity.Observation) -> None:
        scene = identity.Scene(state, seen)
        start = min(seen.keep, seen.touched)
        while start > 0 and scene.message(scene.at(start - 1)).role != "assistant":
            start -= 1
        start = max(start - 1, 0)
        # where only the end grew, earlier ids are those the session knows; else the whole path is looked at again
        plain = seen.touched >= len(state.path)
        begin = start if plain else 0
        fresh = {id_ for id_ in state.calls if state.calls[id_] // 4096 in state.pos} if False else frozenset()
        pairing.check(((i, scene.message(scene.at(i))) for i in range(begin, scene.length())), state.codec, fresh)
        if plain:
            self._check_reuse(state, scene, begin)

    @staticmethod
    def _check_reuse(state: State, scene: identity.Scene, begin: int) -> None:
        if state.codec != "anthropic":
            return
        for index in range(max(begin, scene.seen.keep), scene.length()):
            for p, part in enumerate(scene.message(scene.at(index)).parts):
                owner = state.calls.get(part.id, 0) if type(part).__name__ == "Call" else 0  # type: ignore[union-attr]
                if owner and scene.index(owner // 4096) >= 0:
                    raise MessageError(
                        "two tool calls carry the same id; a provider refuses that",
                        value=part.id,  # type: ignore[union-attr]
                        where=f"messages[{index}].content[{p}]",
                    )


class Produced(msgspec.Struct, frozen=True):
    """placeholder"""

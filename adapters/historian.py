"""Summaries made beside the session: when one is due, a stretch is read, summarised and published as one event.

A run holds a lease that is an event. The summariser is called without any lock, in a thread of its own; its result is
published by whoever comes first: that thread, or a pass that waits for it at 95% (``history.md`` 4, 5, as ruled). What
fails leaves history as it was.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from .. import defects, engine
from ..domain import costs, items
from ..domain import events as ev
from ..domain.coverage import history
from ..domain.errors import FoldlogError
from ..domain.history import boundary, budgets, chunk, parse, trigger, validate
from ..domain.measured import RETRIED
from ..domain.passes.given import Outlook
from ..domain.passes.schedule import Pressure, gauge, idle
from ..domain.session import GONE, STALE
from ..domain.state import State
from ..domain.transcript import Call, Message, Result, Text
from ..projections import decay
from ..projections.hot import Hot
from . import owners
from .idle import IdleClock
from .models.summarizers.port import Job, Summarised, Summarizer, Turn, failure, kind_of
from .models.summarizers.turns import turn
from .owners import Owner

LEASE_MS = 300_000
TIMEOUT_MS = 300_000
CONTEXT = 128_000
"""The summariser's window where none is configured (4.1)."""
GIVE_UP = 3
"""After so many failures in a row a run is tried only at 95%, or when something new was published."""
POLL = 0.25
RUNS = 8
"""Most runs in a row of a summariser that asks no model."""
DEEP = 25
"""Per cent of the raw tail that is kept where the cache is lost anyway (ride, as deep as at 95%), and by free runs."""


class Stretch(msgspec.Struct, frozen=True):
    """What one run reads: ordinals ``first..last`` at path positions ``start..end``, their digest, the run's id."""

    run: str
    first: int
    last: int
    start: int
    end: int
    ordinals: tuple[int, ...]
    fingerprint: bytes


class _Work:
    """One run in this process: its stretch, and what came of it."""

    def __init__(self, stretch: Stretch, job: Job, made: chunk.Chunk) -> None:
        self.stretch = stretch
        self.job = job
        self.chunk = made
        self.done = threading.Event()
        self.result: Summarised | FoldlogError | None = None
        self.published = False


class Historian:
    """Watches sessions and summarises them. ``inline``: run at once, in the caller's thread (simulations).

    ``told`` hears of what failed; None: the log does.
    """

    def __init__(
        self,
        summarizer: Summarizer,
        count: Callable[[str], int],
        *,
        inline: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        told: Callable[[str], None] | None = None,
    ) -> None:
        self.summarizer = summarizer
        self.count = count
        self.inline = inline
        self.timeout_ms = timeout_ms
        self.told = told or defects.warn
        self.calls: list[Summarised] = []
        self.owner = Owner()
        self._free = bool(getattr(summarizer, "free", False))
        self._works: dict[str, _Work] = {}
        self._looked: dict[str, tuple[int, int]] = {}
        self._queued: set[str] = set()
        self._cores: dict[str, engine.Core] = {}
        self._idle = IdleClock(self._gone_silent)
        self._watcher = ThreadPoolExecutor(max_workers=1, thread_name_prefix="foldlog-watch")

    def outlook(self, core: engine.Core) -> Outlook:
        """Whether a summary may still come, by the session's state: a new process says the same."""
        state = core.hot().state
        if state.failures >= GIVE_UP:
            return Outlook()  # it comes no more below 95%: drops that wait for it would wait for ever
        found = self._decide(core, state, read=False)
        return Outlook(found.boundary is not None and found.boundary.runnable, found.floor_mark)

    def _mine(self, core: engine.Core, state: State) -> _Work | None:
        """Return this process's run, None where its lease ran out or was lost: a hung summariser stops no other run."""
        work = self._works.get(core.stream)
        if work is None:
            return None
        if state.run is not None and state.run.run == work.stretch.run and state.running(core.clock()):
            return work
        del self._works[core.stream]
        work.published = True
        return None

    def watch(self, core: engine.Core) -> None:
        """Look at a session once the pass has gone out: at once where runs are inline, else in the background."""
        if self.inline:
            self.consider(core)
            return
        state = core.hot().state
        self._cores[core.stream] = core
        self._idle.touch(core.stream, core.settings(state.policy, state.model).ttl / 1000 + 1)
        if core.stream not in self._queued:
            self._queued.add(core.stream)
            self._watcher.submit(self._look, core)

    def close(self) -> None:
        """Look at no session any more. A run under way ends by itself; its result is not published."""
        self._idle.close()
        self._watcher.shutdown(wait=False, cancel_futures=True)
        self.owner.close(working=bool(self._works))

    def _gone_silent(self, name: str) -> None:
        """Look again at a session whose cache is lost by now: what is summarised rides the fold that comes anyway."""
        core = self._cores.get(name)
        if core is not None:
            state = core.hot().state
            passed = core.settings(state.policy, state.model).ttl + 1
            self._watcher.submit(self._look, core, max(state.seen, state.response_now) + passed)

    def _look(self, core: engine.Core, now: int | None = None) -> None:
        self._queued.discard(core.stream)
        try:
            self.consider(core, now)
        except FoldlogError as error:
            self.told(f"no summary this time: {error}")  # the next look tries again; the session is as it was

    def consider(self, core: engine.Core, now: int | None = None) -> None:
        """Look whether a summary is due, and start it. Called after a pass, never inside one.

        ``now``: session time in ms, if None the last time the session was heard of (a host's clock need not be ours).
        A summariser that asks no model goes on until nothing more is due; any other makes one run a look.
        """
        for _ in range(RUNS if self._free else 1):
            work = self._look_once(core, now)
            if work is None:
                return
            self._go(core, work, now)
            if not self.inline:
                return  # its own thread looks again

    def _look_once(self, core: engine.Core, now: int | None) -> _Work | None:
        with core.lock:
            state = core.hot().state
            if not state.primary or not core.settings(state.policy, state.model).compaction:
                return None
            if self._mine(core, state) is not None or state.failures >= GIVE_UP:
                return None
            self._bury(core)
            lost = self._cache_gone(core, state, max(state.seen, state.response_now) if now is None else now)
            if not lost and not self._worth_looking(core, state):
                return None
            found = self._decide(core, state, lost=lost)
            return self._start(core, state, found.boundary) if found.fire and found.boundary is not None else None

    @staticmethod
    def _cache_gone(core: engine.Core, state: State, now: int) -> bool:
        """Whether the provider's cache has outlived its lifetime: the next pass folds anyway, a summary rides free."""
        return idle(state, core.settings(state.policy, state.model).ttl, now, answered=True)

    def relieve(self, core: engine.Core, waiting: Callable[[str], None] | None = None) -> bool:
        """At 95%: make sure of a summary before the pass goes on; return whether one was published.

        The caller holds the session's lock. Waits for a run of this process or another one, at most the timeout.
        """
        state = core.hot().state
        if not core.settings(state.policy, state.model).compaction:
            return False
        self._bury(core)
        before = len(state.compartments)
        deadline = time.monotonic() + self.timeout_ms / 1000
        work = self._mine(core, state)
        running = state.running(core.clock())
        if state.run is not None and state.run.waited and running and (work is None or not work.done.is_set()):
            return False  # once per run: a pass that waited in vain is not followed by others that do
        others = work is None and running
        if others:
            self._tell(waiting, "the session is nearly full; waiting for another process's summary")
            while others and time.monotonic() < deadline and state.running(core.clock()):
                time.sleep(POLL)
                core.refresh()
                others = not self._bury(core)
                state = core.hot().state
        # each try costs, and six in a row are no chance (OV-02)
        if work is None and not others and state.failures < RETRIED:
            found = self._decide(core, state, forced=True)
            if found.boundary is not None and found.boundary.runnable:
                work = self._start(core, state, found.boundary)
                if work is not None and not self.inline:
                    threading.Thread(target=self._summarise, args=(work,), daemon=True).start()
        if work is not None:
            self._tell(waiting, "the session is nearly full; waiting for a summary of its older part")
            if self.inline:
                self._summarise(work)
            elif not work.done.wait(max(deadline - time.monotonic(), 0)):
                return False  # it goes on; this pass sends only what fits
            self._publish(core, work)
        return len(core.hot().state.compartments) > before

    # ------------------------------------------------------------------ deciding

    def _bury(self, core: engine.Core) -> bool:
        """End the run of a process that is gone before its lease does; return whether it was one.

        The caller holds the session's lock. The file stays: that process may have been at work on other sessions too.
        """
        state = core.hot().state
        run = state.run
        if run is None or not state.running(core.clock()) or not owners.gone(run.owner):
            return False

        def build(hot: Hot, at: int) -> list[ev.Event]:
            now = hot.state.run
            return [ev.HistorianFailed(at, "", run.run, GONE, b"")] if now is not None and now.run == run.run else []

        core.command(build)
        self._looked.pop(core.stream, None)  # what it was to read is due still
        return True

    def _worth_looking(self, core: engine.Core, state: State) -> bool:
        """Whether enough has come since the last look: a look reads the whole raw tail."""
        if state.last is None:
            return False
        seen, offset = self._looked.get(core.stream, (-1, -1))
        now = gauged(core, state)
        figures = self._figures(now)
        grown = state.last.tokens - seen
        pressed = now.percent >= now.bands.execute - trigger.MARGIN
        due = seen < 0 or offset != len(state.compartments) or grown >= figures.trigger // 4 or grown < 0
        if not due and not (pressed and grown > 0) and not state.marked:
            return False
        self._looked[core.stream] = state.last.tokens, len(state.compartments)
        return True

    def _figures(self, now: Pressure, scale: int = budgets.WHOLE) -> budgets.Figures:
        limit = now.window.soft if now.window.known else 0
        return budgets.figures(limit, now.bands.execute, now.percent, scale)

    def _decide(
        self, core: engine.Core, state: State, *, forced: bool = False, lost: bool = False, read: bool = True
    ) -> trigger.Trigger:
        """Say whether a summary is due, and of what. Without ``read`` only whether there is something to summarise."""
        now = gauged(core, state)
        figures = self._figures(now)
        offset = _offset(state)
        rows = [self._row(state, place) for place in range(offset, len(state.path) + 1)]
        usage = max(now.percent, 9_500) if forced else now.percent
        facts = trigger.Facts(
            running=state.running(core.clock()),
            usage=usage,
            threshold=now.bands.execute,
            force=now.bands.force,
            bound=sum(row.tokens for row in rows),
            projected=None if forced else self._projected(state, usage),
            waiting=len(rows),
        )
        early = trigger.gate(facts, figures)
        if early is not None:
            return early

        def at_scale(scale: int) -> boundary.Boundary:
            return boundary.resolve(rows, offset, self._figures(now, scale), first=offset)

        if lost or (self._free and not forced):
            # a run that asks no model costs nothing, and what it publishes waits for the next fold, whenever that is
            deep = at_scale(DEEP)
            fire = deep.runnable and deep.eligible_tokens >= trigger.MEANINGFUL_TOKENS
            if fire:
                return trigger.Trigger(True, "projected_headroom", deep)
        found = boundary.resolve(rows, offset, figures, first=offset, floor_mark=bool(state.marked))
        scan = trigger.Scan(0, 0, 0, False)
        if found.runnable and read and not forced:
            turns = [_plain(self._turn(core, state, place)) for place in range(offset, found.tail_start)]
            made = chunk.build(turns, figures.scan, self.count)
            scan = trigger.Scan(made.tokens, made.end - made.start + 1, made.clusters, made.has_more)
        if forced:
            chosen = found if found.runnable else at_scale(DEEP)
            return trigger.Trigger(chosen.runnable, "force_band", chosen)
        answer = trigger.decide(facts, figures, found, scan, at_scale)
        return answer if answer.boundary is not None else msgspec.structs.replace(answer, boundary=found)

    @staticmethod
    def _projected(state: State, usage: int) -> int | None:
        active = state.last.tokens if state.last is not None else 0
        droppable = sum(costs.of(state, state.tags[number - 1]) for number in state.queue)
        return trigger.project(usage, active, droppable)

    @staticmethod
    def _row(state: State, position: int) -> boundary.Row:
        message = state.node(state.path[position - 1]).message
        return boundary.Row(
            tokens=sum(part.tokens for part in message.parts),
            user_prompt=message.role == "user" and any(isinstance(p, Text) and not p.blank for p in message.parts),
            tools=any(isinstance(part, Call | Result) for part in message.parts),
            calls=tuple(part.id for part in message.parts if isinstance(part, Call)),
            results=tuple(part.id for part in message.parts if isinstance(part, Result)),
            tied=_tied(state, position),
        )

    def _turn(self, core: engine.Core, state: State, position: int) -> Turn:
        message: Message = state.node(state.path[position - 1]).message
        read = turn(state.codec, position, message, core.body(message.body), state.wire)
        return msgspec.structs.replace(read, tied=True) if _tied(state, position) else read

    # ------------------------------------------------------------------- running

    def _start(self, core: engine.Core, state: State, found: boundary.Boundary) -> _Work | None:
        """Take the lease for ``found`` and read what it covers; None where another run is on."""
        turns = [self._turn(core, state, place) for place in range(found.offset, found.eligible_end)]
        if not turns:
            return None
        if not self.inline:
            self.owner.claim()
        name = self.owner.name
        budget = budgets.chunk(CONTEXT)
        made = chunk.build([_plain(one) for one in turns], budget, self.count)
        turns = turns[: made.end - made.start + 1]
        ordinals = tuple(state.path[made.start - 1 : made.end])
        stretch = Stretch(
            secrets.token_urlsafe(9), ordinals[0], ordinals[-1], made.start, made.end, ordinals,
            fingerprint(state, ordinals),
        )  # fmt: skip

        def build(hot: Hot, at: int) -> list[ev.Event]:
            if hot.state.running(at) or not _current(hot.state, stretch):
                return []  # another run is on, or another process has covered the stretch since it was chosen
            return [
                ev.HistorianStarted(
                    at, "", stretch.run, stretch.first, stretch.last, stretch.fingerprint, name, at + LEASE_MS
                )
            ]

        core.command(build)
        run = core.hot().state.run
        if run is None or run.run != stretch.run:
            return None
        tokens = sum(sum(part.tokens for part in state.node(m).message.parts) for m in ordinals)
        earlier = tuple(core.text(one.title).decode() for one in history(state)[-4:] if one.title)
        job = Job(
            tuple(turns), chunk.fit(made.text, budget, self.count), made.start, made.end, tokens, earlier, core.stream
        )
        work = self._works[core.stream] = _Work(stretch, job, made)
        return work

    def _go(self, core: engine.Core, work: _Work, now: int | None) -> None:
        if self.inline:
            self._summarise(work)
            with core.lock:
                self._publish(core, work)
            return

        def run() -> None:
            self._summarise(work)
            try:
                with core.lock:
                    self._publish(core, work)
            except FoldlogError as error:
                self.told(f"the summary could not be stored: {error}")
                return
            if self._free:
                self.consider(core, now)

        threading.Thread(target=run, name="foldlog-historian", daemon=True).start()

    def _summarise(self, work: _Work) -> None:
        try:
            if work.chunk.lines:  # noise alone asks nobody: it becomes a boundary without a text (HIST-21)
                work.result = self.summarizer(work.job)
                if not isinstance(work.result, Summarised):
                    work.result = failure("rubbish", "the summariser returned no summary", type(work.result).__name__)
        except FoldlogError as error:
            work.result = error
        except Exception as error:  # noqa: BLE001 - a summariser is foreign code: what it raises is a failed run, no more
            work.result = FoldlogError(f"the summariser broke: {type(error).__name__}: {error}", code="SUMMARISER")
        work.done.set()

    def _publish(self, core: engine.Core, work: _Work) -> None:
        """Store what came of a run, once. The caller holds the session's lock."""
        if work.published:
            return
        work.published = True
        if self._works.get(core.stream) is work:
            del self._works[core.stream]
        result = work.result
        failed = result if isinstance(result, FoldlogError) else None
        texts: dict[bytes, bytes] = {}
        found: tuple[parse.DraftCompartment, ...] = ()
        if not work.chunk.lines:
            found = (_nothing(work.chunk),)
        elif isinstance(result, Summarised):
            self.calls.append(result)
            draft = parse.parse(result.raw) if result.raw else _draft(result)
            verdict = validate.check(draft, work.chunk)
            if verdict.error:
                failed = FoldlogError(f"the summary cannot be used: {verdict.error}", where="summariser.rubbish")
            else:
                # what asks no model always covers its chunk: nothing would be read better again
                found = validate.finish(draft, verdict, work.chunk, keep_last=not result.raw).compartments
        stretch = work.stretch

        def keep(text: str) -> bytes:
            data = text.encode("utf-8", "replace")
            digest = hashlib.sha256(data).digest()
            texts[digest] = data
            return digest

        shown = [self._compartment(one, stretch, number, keep) for number, one in enumerate(found)]
        words = keep(str(failed)[:2_000]) if failed is not None else b""

        def build(hot: Hot, at: int) -> list[ev.Event]:
            run = hot.state.run
            if run is None or run.run != stretch.run:
                return []  # the lease was lost: somebody else's run counts
            if failed is not None:
                return [ev.HistorianFailed(at, "", stretch.run, kind_of(failed), words)]
            if not _current(hot.state, stretch) or not shown:
                return [ev.HistorianFailed(at, "", stretch.run, STALE, b"")]
            base = hot.state.compartments[-1].seq + 1 if hot.state.compartments else 0
            numbered = tuple(msgspec.structs.replace(one, seq=base + n) for n, one in enumerate(shown))
            return [ev.HistorianPublished(at, "", stretch.run, numbered, (), (), ())]

        core.command(build, texts=texts)
        if failed is not None:
            self.told(f"no summary this time: {failed}")

    def _compartment(
        self, one: parse.DraftCompartment, stretch: Stretch, number: int, keep: Callable[[str], bytes]
    ) -> ev.Compartment:
        first, last = (stretch.ordinals[place - stretch.start] for place in (one.start, one.end))
        tiers = (one.p1 or "", one.p2 or "", one.p3 or "", one.p4 or "")
        row = decay.Row(first, last, one.title, tiers, (0, 0, 0, 0), one.importance)
        first_tier, second, third, fourth = (keep(text) for text in tiers)
        return ev.Compartment(
            number,
            first,
            last,
            keep(one.title),
            (first_tier, second, third, fourth),
            decay.measure(row, self.count),
            one.importance,
        )

    @staticmethod
    def _tell(waiting: Callable[[str], None] | None, words: str) -> None:
        if waiting is not None:
            waiting(words)


def gauged(core: engine.Core, state: State) -> Pressure:
    """Return the pressure a session is under, from its state alone."""
    settings = core.settings(state.policy, state.model)
    size = state.last.tokens if state.last is not None else 0
    return gauge(state, state.model, state.context_limit, state.output_limit, settings, size)


def fingerprint(state: State, ordinals: tuple[int, ...]) -> bytes:
    """Return a digest of a stretch's raw content, b"" where it is no longer one stretch of the head's path."""
    place = state.pos.get(ordinals[0], -1)
    if place < 0 or tuple(state.path[place : place + len(ordinals)]) != ordinals:
        return b""
    return hashlib.sha256(b"".join(state.node(m).message.ident for m in ordinals)).digest()


def _current(state: State, stretch: Stretch) -> bool:
    """Whether a stretch still begins where the compartments end, and holds what it held."""
    return _offset(state) == stretch.start and fingerprint(state, stretch.ordinals) == stretch.fingerprint


def _offset(state: State) -> int:
    """Return the first path position (1-based) no compartment covers."""
    covered = history(state)
    return state.pos[covered[-1].last] + 2 if covered else 1


def _nothing(made: chunk.Chunk) -> parse.DraftCompartment:
    """Return the compartment of a range that holds nothing to tell."""
    return parse.DraftCompartment(
        index=1, start=made.start, end=made.end, title="", episode="", importance=1,
        p1="", p2="", p3="", p4="", content="",
    )  # fmt: skip


def _plain(one: Turn) -> chunk.Turn:
    calls = tuple(chunk.ToolUse(call.name, call.arguments, call.id) for call in one.calls)
    role: Any = one.role
    return chunk.Turn(one.position, role, one.texts, calls, tuple(result.id for result in one.results), one.tied)


def _tied(state: State, position: int) -> bool:
    """Whether a message of the head's path hangs on the one before it (positions count from 1)."""
    before = state.node(state.path[position - 2]).message if position > 1 else None
    return items.tied(state.codec, before, state.node(state.path[position - 1]).message)


def _draft(result: Summarised) -> parse.Draft:
    found = tuple(
        parse.DraftCompartment(
            index=number, start=one.start, end=one.end, title=one.title, episode="", importance=one.importance,
            p1=one.tiers[0], p2=one.tiers[1], p3=one.tiers[2], p4=one.tiers[3], content=one.tiers[0],
        )
        for number, one in enumerate(result.summaries, 1)
    )  # fmt: skip
    return parse.Draft(compartments=found)

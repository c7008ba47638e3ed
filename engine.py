"""One pass end to end: observe, decide, project, append, evolve; conflicts and needs. Nothing else.

What a pass would change is reckoned beside the session's state, stored, and taken in afterwards (``keeping.py``).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from . import defects, ports
from .domain import events as ev
from .domain import identity, pairing
from .domain.errors import Conflict, InputError, LawBroken, MessageError, Refused, StoreError, how
from .domain.history import budgets
from .domain.passes.decide import Decided, decide, pressed
from .domain.passes.given import Given, Head, Need, Outlook
from .domain.passes.heard import Heard
from .domain.passes.lanes.shape import TOOLS, Part
from .domain.passes.schedule import window_of
from .domain.policy import Settings
from .domain.session import evolve
from .domain.state import State
from .domain.window import bands
from .keeping import ATTEMPTS, OUTCOME_UNKNOWN, Kept, Produced
from .projections import head, replaying, request
from .projections import view as views
from .projections.fold import heads
from .projections.hot import Hot, remember, settle
from .projections.intake import Intake, told_tools
from .projections.observing import increment, whole
from .projections.pending import Pending, ahead
from .projections.wire import CURRENT, wire
from .storage.protocol import Chunk

NEEDS = 9
"""Most rounds of a decision: what words read and ask, the outlook, m[1], m[0] in its place, contents of calls, then of
results; the last one decides."""
READING = "reading what the host sent"


class Core(Kept):
    """One session of one host. Every method may be called from any thread; calls are taken one after the other."""

    def prepare(
        self,
        messages: Any,
        system: Any,
        tools: Any,
        now: int | None,
        waiting: Callable[[str], None] | None = None,
    ) -> Produced:
        """Take the host's whole array and produce the next request. ``waiting`` is told why, if it has to wait."""
        with defects.deciding(self.stream, READING):
            taken = self.reader.array(messages, self._taken)
        self._taken = taken if taken.digests else None
        raws = taken.raws
        if not raws:
            raise MessageError("the array of messages is empty; there is nothing to send", where="messages")
        with self.lock:
            return self._pass(lambda hot, at: self.observe(hot, at, raws, system, tools), now, tools, waiting)

    def advance(
        self,
        new: Any,
        revised: Sequence[tuple[Any, Any]],
        retracted: Sequence[Any],
        now: int | None,
        waiting: Callable[[str], None] | None = None,
    ) -> Produced:
        """Take only what changed since the last request and produce the next one."""
        with defects.deciding(self.stream, READING):
            raws = self.reader.raws(new)
            changed = [(handle, self.reader.raw(one, f"revised[{i}]")) for i, (handle, one) in enumerate(revised)]
        with self.lock:
            since = len(self.hot().state.path)  # what the host counts its news from, whoever tells them first

            def news(hot: Hot, at: int) -> Intake:
                return increment(
                    self.reader, self.options, hot, self.body, self.text, at, raws, changed, retracted, since
                )

            return self._pass(news, now, waiting=waiting)

    def _pass(
        self,
        news: Callable[[Hot, int], Intake],
        now: int | None,
        tools: Any = None,
        waiting: Callable[[str], None] | None = None,
    ) -> Produced:
        def observe(hot: Hot, at: int) -> Intake:
            with defects.deciding(self.stream, READING):
                return news(hot, at)

        if self.unrecorded is not None:
            self.unrecorded()
        command = secrets.token_urlsafe(9)
        at = self.clock()
        then = at if now is None else now
        self.asking.begin()
        relieved = False
        before: tuple[request.Sent, ...] = ()
        ready = self._first(observe, tools, at, then, command)
        for _ in range(ATTEMPTS):
            hot = self.hot()
            try:
                if ready is not None:
                    (intake, plan), ready = ready, None
                else:
                    intake, raw = self._untold(hot, observe, at, then)
                    before += raw
                    plan = self._decide(hot.state, intake, command, at, then)
                alone = hot.state.primary and not intake.seen.side  # beside the head a summary changes nothing
                if not relieved and self.summaries is not None and alone and plan.critical:
                    relieved = True
                    anew, waited = self._relieved(self.summaries, hot, waiting)
                    if anew:
                        hot = self.hot()  # a summary, or what another process told meanwhile
                        intake = observe(hot, at)
                        plan = self._decide(hot.state, intake, command, at, then, waited=waited)
                again = self._repeated(hot, plan)
            except (InputError, Refused):
                if self.refresh(hot):
                    continue
                raise
            except StoreError as error:
                if not isinstance(error, Conflict) and error.code != OUTCOME_UNKNOWN:
                    raise
                self._catch_up("")
                continue
            if again is not None:
                if self.refresh(hot):
                    continue
                return again
            try:
                return self._commit(hot, intake, plan, before)
            except StoreError as error:
                if not isinstance(error, Conflict) and error.code != OUTCOME_UNKNOWN:
                    raise
                done = self._catch_up(command)
                if done is not None:
                    return done
        raise Conflict(self.stream, 0, self.hot().state.version)

    def _first(
        self, observe: Callable[[Hot, int], Intake], tools: Any, at: int, now: int, command: str
    ) -> tuple[Intake, Decided] | None:
        """Decide a session's first pass, and make it exist: in this order, bad input must not; None: it did before."""
        if self.hot().state.codec:
            return None
        with defects.deciding(self.stream, READING):
            opening = self._opening(tools)
        trial = Hot(State(stream=self.stream), views.View())
        evolve(trial.state, 1, opening)
        intake = observe(trial, at)
        ready = intake, self._decide(trial.state, intake, command, at, now)
        return ready if self.open(opening) else None

    def _relieved(
        self, summaries: ports.Summaries, hot: Hot, waiting: Callable[[str], None] | None
    ) -> tuple[bool, bool]:
        """Wait for a summary at 95%; return whether the pass is to be decided anew, and whether it waited in vain."""
        version, published = hot.state.version, False
        with defects.helping(self.stream, "waiting for a summary"):
            published = summaries.relieve(self, defects.notice(self.stream, waiting))
        run = self.hot().state.run
        waited = not published and run is not None and run.lease > self.clock() and not run.waited
        return published or waited or self.hot() is not hot or hot.state.version != version, waited

    def observe(self, hot: Hot, at: int, raws: list[bytes], system: Any, tools: Any) -> Intake:
        """Return what the host's whole array means for the session."""
        served = partial(heads, self.log, self.stream)
        return whole(self.reader, self.options, hot, self.body, self.text, served, at, raws, system, tools)

    def _decide(
        self, state: State, intake: Intake, command: str, at: int, now: int, *, waited: bool = False
    ) -> Decided:
        with defects.deciding(self.stream, "the decision"):
            pairing.check_news(state, intake.seen)
            settings = self.settings(intake.policy, intake.model)
            given = Given(
                at, now, command, CURRENT, intake.seen, tuple(intake.events), intake.model, intake.context_limit,
                intake.output_limit, settings, intake.system, intake.system_hash, intake.system_tokens,
                intake.tools, intake.tools_names, intake.tools_tokens,
                self.asking.ports.notes is not None, self.asking.ports.search is not None, waited,
            )  # fmt: skip
            found: Head | None = None
            outlook: Outlook | None = None
            facts: dict[Part, str] = {}
            heard = Heard()
            for _ in range(NEEDS):
                answer = decide(state, given, found, facts, heard, outlook)
                if isinstance(answer, Decided):
                    return answer
                if answer.words:
                    heard = self._hear(state, intake, answer, facts, heard)
                elif answer.outlook:
                    outlook = self.summaries.outlook(self) if self.summaries is not None else Outlook()
                elif answer.fold is None:
                    facts.update((part, self._content(state, intake, part)) for part in answer.parts)
                else:
                    found = self._render(state, intake, settings, fold=answer.fold)
            raise LawBroken("the decision asks again for what it was given")

    def _content(self, state: State, intake: Intake, part: Part) -> str:
        """Return what a part of the log, or one that is new, holds as a person reads it; of ``TOOLS`` the names."""
        if part == TOOLS:
            return told_tools(state, intake, self._fresh_text(intake.texts))
        body = identity.Scene(state, intake.seen).message(part[0]).body
        return wire(state.wire).part_text(state.codec, self._fresh(intake)(body), part[1])

    def _hear(self, state: State, intake: Intake, need: Need, facts: dict[Part, str], before: Heard) -> Heard:
        """Answer what words to the agent ask. What breaks here costs them alone (FAIL-1)."""
        try:
            facts.update((part, self._content(state, intake, part)) for part in need.parts)
        except Exception as error:  # noqa: BLE001 - as above
            before = msgspec.structs.replace(before, unread=how(error))
        return self.asking.hear(self.stream, need, before)

    def _render(self, state: State, intake: Intake, settings: Settings, *, fold: bool) -> Head:
        """Answer what a decision needs to know: the texts of the head."""
        covered = identity.Scene(state, intake.seen).covered()
        self._fetch(digest for one in covered for digest in (one.title, *one.tiers))
        if not fold:
            view = self.hot().view
            return head.refresh(state, view.m0, view.guidance, covered, self.reader.count, self.text)
        window, _ = window_of(state, intake.model, intake.context_limit, intake.output_limit, settings)
        limit = window.soft if window.known else 0
        budget = budgets.history(limit, bands(settings, window).execute)
        return head.fold(state, covered, budget, self.reader.count, self.text, managed=settings.compaction)

    def _repeated(self, hot: Hot, plan: Decided) -> Produced | None:
        """Return the last pass where this one would say nothing new (convention 7). Raises its refusal again."""
        if len(plan.events) > 1 or hot.state.version != hot.state.last_version:
            return None
        outcome = plan.outcome
        if isinstance(outcome, ev.PassRefused):
            last = self._newest(hot)
            if last is None or getattr(last.event, "side", None):
                raise Refused(outcome.message, code=outcome.code, where=self.stream)
            return last  # what went out is not refused because it is asked for again
        # pressure alone is nothing new: a held pass that is asked for again is not one more of its row (PROP-4), and
        # what the estimate of a request nobody answered allows waits for the next one
        if outcome.arrivals or not (isinstance(outcome, ev.PassDeferred | ev.ConversationRebuilt) or pressed(outcome)):
            return None
        last = self._newest(hot)
        # a side request repeats only itself, and the head's request only the head's
        side = getattr(outcome, "side", None)
        if last is None or getattr(last.event, "side", None) != side or (outcome.divergence and not side):
            return None
        return last

    def _newest(self, hot: Hot) -> Produced | None:
        """Return the pass the log ends with, None where it ends with a refusal."""
        if self._last is None or self._last.version != hot.state.version:
            stored = next(iter(self.log.read(self.stream, hot.state.version - 1)))
            if not isinstance(stored.event, ev.Pass):
                return None
            self._last = Produced(stored.event, stored.version, self._delta(hot, stored.event))
        return self._last

    def _commit(self, hot: Hot, intake: Intake, plan: Decided, raw: tuple[request.Sent, ...] = ()) -> Produced:
        outcome = plan.outcome
        texts = {**plan.texts, **intake.texts}
        chunks = [*self._new_bodies(hot.state, intake), *(Chunk(digest, data) for digest, data in texts.items())]
        if isinstance(outcome, ev.PassRefused):
            self._append(hot, plan.events, chunks)
            self._evolve(hot, plan.events)
            settle(hot)
            hot.received = []  # what the host sent is in the session, but no request holds it
            raise Refused(outcome.message, code=outcome.code, where=self.stream)
        scene = identity.Scene(hot.state, intake.seen)
        places = {one.m: scene.index(one.m) for one in (*getattr(outcome, "edits", ()), *outcome.inserts)}
        resets = {m: first for m, (first, _) in intake.seen.revised.items()}
        with defects.deciding(self.stream, "the request"):
            # only a rebuild shows the numbers of what went out raw: however much that was, other passes cost the same
            raw_ones = () if isinstance(outcome, ev.PassDeferred) else hot.view.hidden
            change = views.preview(hot.view, outcome, resets, {**places, **{m: scene.index(m) for m in raw_ones}})
            sees, length = ahead(hot.view, plan.events), hot.state.base_len
            work = Pending(hot, sees, scene, change, self._fresh(intake), self._fresh_text(texts), length)
            sent, start, digest = work.project(outcome, places)
        outcome = msgspec.structs.replace(outcome, digest=sent[-1].digest if sent else digest)
        events = (*plan.events[:-1], outcome)
        self._append(hot, events, chunks)
        defects.tell(self.stream, plan.failed, outcome.number)
        self._bodies.update((digest, raw) for digest, (raw, _) in intake.bodies.items())
        self._texts.update(texts)
        before = hot.state.pos
        if intake.seen.base is not None:  # it extends another request than the head's last, along the new path
            before, length = {scene.at(i): i for i in range(scene.length())}, intake.seen.base[1]
        changed = {*change.plain, *change.slots, *views.placed(hot.view, outcome.inserts)}
        delta = tuple(one for one in sent if one.m in changed or not -1 < before.get(one.m, -1) < length)
        self._evolve(hot, events, change)
        self.asking.end()
        for m in changed:  # a covered message changes without being sent
            hot.blocks.pop(m, None)
        hot.blocks.update((one.m, one.blocks) for one in sent)
        if not intake.seen.side:
            fresh = isinstance(outcome, (ev.HistoryRefreshed, ev.BaselineFolded))
            remember(hot, intake, start, digest, [one.digest for one in sent], fresh=fresh)
        told = {one.m for one in delta}
        before_it = (one for one in raw if one.m not in told)
        self._last = Produced(outcome, hot.state.version, (*before_it, *delta), made=True)
        return self._last

    def _untold(
        self, hot: Hot, observe: Callable[[Hot, int], Intake], at: int, now: int
    ) -> tuple[Intake, tuple[request.Sent, ...]]:
        """Record what an answer shows to have gone out untold (LAST-6); return what is new behind it, and that."""
        intake = observe(hot, at)
        with defects.deciding(self.stream, "the last good request"):
            settings = self.settings(hot.state.policy, hot.state.model)
            found = replaying.untold(hot, intake, settings, self.text, at, now)
        if found is None:
            return intake, ()
        part, made = found
        self.replayed(part, made.event, secrets.token_urlsafe(9))
        return observe(hot, at), made.delta

    def replayed(self, intake: Intake, event: ev.LastGoodReplayed, command: str) -> None:
        """Record a request that went out without a pass, with the messages it brought. Raises ``StoreError``."""
        hot = self.hot()
        events = [*intake.seen.events, event]
        events[0] = msgspec.structs.replace(events[0], cmd=command)
        self._append(hot, events, self._new_bodies(hot.state, intake))
        self._bodies.update((digest, raw) for digest, (raw, _) in intake.bodies.items())
        self._evolve(hot, events)
        settle(hot)
        if intake.received is not None:
            keep, rest = intake.received
            hot.received[keep:] = rest[keep:]

    def _fresh(self, intake: Intake) -> Callable[[bytes], bytes]:
        def raw(digest: bytes) -> bytes:
            found = intake.bodies.get(digest)
            return found[0] if found is not None else self.body(digest)

        return raw

    def _fresh_text(self, texts: dict[bytes, bytes]) -> Callable[[bytes], bytes]:
        def text(digest: bytes) -> bytes:
            found = texts.get(digest)
            return found if found is not None else self.text(digest)

        return text

    def _new_bodies(self, state: State, intake: Intake) -> Iterable[Chunk]:
        bases = {message.body: state.node(m).message.body for m, (_, message) in intake.seen.revised.items()}
        observed = [message.body for message in intake.seen.new] + list(bases)
        for digest in dict.fromkeys(observed):
            raw, one = intake.bodies[digest]
            yield Chunk(digest, raw, one.attachments, bases.get(digest, b""))

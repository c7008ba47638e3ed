"""History in the state machine: summaries made beside the session, and what head and cut must keep because of them.

``Told`` reads a session's log by itself: paths, compartments, cut. Nothing here asks the session what is covered.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import foldlog
from foldlog.adapters.historian import Historian, _offset
from foldlog.adapters.models.summarizers.port import Job, Summarised, Summary
from foldlog.domain import events as ev
from foldlog.domain.history.boundary import Boundary, find_arcs
from foldlog.projections.fold import load
from support import machine_host as host
from support import machine_outage as outage

if TYPE_CHECKING:
    from support.machine import Machine

LEASE = 300_001
_HEADING = re.compile(r"(?m)^## (\d+)-(\d+) ")
_NO_TEXT = hashlib.sha256(b"").digest()


class Scripted:
    """Covers its stretch with ``pieces`` compartments; outcome 1 raises, 2 answers rubbish, 3 leaves a message out."""

    name, free = "scripted", False

    def __init__(self, pieces: int = 1, outcome: int = 0) -> None:
        self.pieces, self.outcome = pieces, outcome

    def __call__(self, job: Job) -> Summarised:
        if self.outcome == 1:
            raise RuntimeError("the summariser broke, says the test")
        if self.outcome == 2:
            return Summarised((), "no summary at all", 9, 9, self.name)
        step = max((job.end - job.start + 1) // self.pieces, 1)
        first = job.start + (self.outcome == 3)
        starts = [*range(first, job.end + 1, step)][: self.pieces]
        ends = [*(start - 1 for start in starts[1:]), job.end]
        return Summarised(tuple(map(self._piece, starts, ends)), "", 0, 0, self.name)

    def _piece(self, start: int, end: int) -> Summary:
        said = f"{start} <b> & so on\n## 1-1 · no heading"
        if start % 3 == 0:
            said += " </session-history> and all that was in it" * 5
        return Summary(start, end, f"To {end}", (said, said[:12], said[:6], ""), 1 + start * 7 % 100)


class Told:
    """What the log of one session says: ``path``, ``made`` ((compartment, the messages it covers)), ``cut``.

    ``shown``: numbers of the compartments the newest soft or hard pass knew; ``base``: those of the newest hard one.
    ``void``: the head left what is covered, and no fold came since. ``waited`` and ``left``: the compartments it did
    not show, and whether the head had left, right before the newest such pass. ``run``: the summary under way;
    ``replays``: last-good requests that were recorded, not looked at yet.
    """

    def __init__(self) -> None:
        self.version = self.nodes = self.cut = 0
        self.path: list[int] = []
        self.made: list[tuple[ev.Compartment, tuple[int, ...]]] = []
        self.shown: set[int] = set()
        self.base: set[int] = set()
        self.run = ""
        self.runs: set[str] = set()
        self.failed = 0
        self.stale = 0
        self.void = self.left = False
        self.waited: set[int] = set()
        self.replays: list[ev.LastGoodReplayed] = []

    def fork(self, head: int) -> Told:
        """Return the beginning of a fork behind message ``head``."""
        new = Told()
        new.nodes, new.cut, new.void = self.nodes, self.cut, self.void
        new.path, new.made = list(self.path), list(self.made)
        new.shown, new.base = set(self.shown), set(self.base)
        new._move(self.path.index(head) + 1, [])
        return new

    def read(self, log: Any, stream: str, until: int | None = None) -> None:
        """Take in what the log holds up to version ``until``."""
        for stored in log.read(stream, self.version, until):
            self.version = stored.version
            self._take(stored.event)

    def _take(self, event: ev.Event) -> None:
        if isinstance(event, ev.MessagesObserved):
            new = [*range(self.nodes + 1, self.nodes + len(event.messages) + 1)]
            self.nodes += len(new)
            if not event.side and event.after == (self.path[-1] if self.path else 0):
                self.path += new
        elif isinstance(event, ev.HeadMoved):
            self._move(event.keep, _ordinals(event.then))
        elif isinstance(event, ev.HistorianStarted):
            self.run = event.run
        elif isinstance(event, ev.HistorianFailed):
            assert event.run == self.run, "HIST-30: a run failed that was not the one under way"
            self.run = ""
            self.failed += event.kind != "stale"
            self.stale += event.kind == "stale"
        elif isinstance(event, ev.HistorianPublished):
            self._published(event)
        elif isinstance(event, ev.LastGoodReplayed):
            self.replays.append(event)
        elif isinstance(event, ev.HistoryRefreshed | ev.BaselineFolded):
            self.cut, self.left = event.cut, self.void
            known = {one.seq for one, _ in self.cover(self.path)}
            self.waited, self.shown = known - self.shown, known
            if isinstance(event, ev.BaselineFolded):
                self.base, self.void = set(self.shown), False

    def _published(self, event: ev.HistorianPublished) -> None:
        assert event.run == self.run, "HIST-30: a run published that was not the one under way"
        assert event.run not in self.runs, "HIST-30: a run published twice"
        self.runs.add(event.run)
        self.run = ""
        numbers = [one.seq for one, _ in self.made]
        place = self.index(event.compartments[0].first)
        for one in event.compartments:
            first, last = self.index(one.first), self.index(one.last)
            assert one.seq not in numbers, "INV-7: two compartments have one number"
            assert place == first <= last, f"INV-4: compartment {one.first}-{one.last} leaves a gap or overlaps"
            self.made.append((one, tuple(self.path[first : last + 1])))
            place = last + 1

    def _move(self, keep: int, then: list[int]) -> None:
        if self.cut and keep <= self.index(self.cut):
            self.void = True
        self.path = self.path[:keep] + then

    def index(self, m: int) -> int:
        """Return the place of ``m`` on the head's path, -1 off it."""
        return self.path.index(m) if m in self.path else -1

    def whole(self, event: Any) -> list[int]:
        """Return all ordinals of the array a pass answered, the covered ones too. Call it right behind the pass."""
        side = getattr(event, "side", None)
        return self.path if side is None else [*self.path[: side.keep], *_ordinals(side.then)]

    def cover(self, path: list[int]) -> list[tuple[ev.Compartment, tuple[int, ...]]]:
        """Return the compartments that cover ``path`` from its first message, with the messages of it they cover.

        Some of what one was made of may be gone; nothing may stand between that it does not know of.
        """
        found: list[tuple[ev.Compartment, tuple[int, ...]]] = []
        place = 0
        while place < len(path):
            for one, members in reversed(self.made):
                end = path.index(one.last) if one.last in path else -1
                stretch = tuple(path[place : end + 1])
                if one.first == path[place] and stretch and set(stretch) <= set(members):
                    found.append((one, stretch))
                    break
            else:
                return found
            place += len(found[-1][1])
        return found


def _ordinals(ranges: tuple[tuple[int, int], ...]) -> list[int]:
    return [m for first, last in ranges for m in range(first, last + 1)]


def edges(cover: list[tuple[ev.Compartment, tuple[int, ...]]]) -> list[int]:
    """Return the path places at which a compartment of ``cover`` ends, 0 first."""
    found = [0]
    for _, members in cover:
        found.append(found[-1] + len(members))
    return found


# ------------------------------------------------------------------------------- judging


def judged(machine: Machine, request: foldlog.Request, told: Told, items: list[host.Message]) -> int:
    """INV-3, INV-4, INV-5, INV-8: head and cut of a request against what the log tells. Return the place of the cut."""
    event: Any = request._produced.event
    whole = told.whole(event)
    assert len(whole) == len(items), f"the path has {len(whole)} messages, the host handed over {len(items)}"
    side = getattr(event, "side", None)
    alone = side is not None and side.whole
    begin = 0 if alone or told.cut not in whole else whole.index(told.cut) + 1
    cover = told.cover(whole)
    ends = edges(cover)
    assert begin in ends, f"INV-4: pass {event.number} begins at {begin}, compartments end at {ends}"
    fresh = isinstance(event, ev.HistoryRefreshed | ev.BaselineFolded)
    headed = machine.mode == "primary" and not machine.unmanaging()
    if fresh:
        assert begin == (ends[-1] if headed else 0), f"INV-4: cut at {begin}, compartments end at {ends}"
    if told.void and side is None:
        raise AssertionError(f"HIST-32: pass {event.number} sends a head the host has left ({request.level})")
    if isinstance(event, ev.BaselineFolded) and headed:
        _as_before(machine, event, tuple(one for one, _ in cover))
    _named(machine, request, told, cover[: ends.index(begin)])
    _pairs(items, [end for end in ends if end <= begin])
    _recovered(machine, request, whole[:begin], items)
    machine.counts["cut"] += bool(begin)
    return begin


def _as_before(machine: Machine, event: ev.BaselineFolded, covered: tuple[ev.Compartment, ...]) -> None:
    """INV-6: what the same summaries came to in an earlier fold, of whichever process or fork, they come to again."""
    said = tuple((one.first, one.last, one.title, one.tiers, one.importance) for one in covered)
    state = machine.hot().state  # a limit the provider told sets the budget too, and a fork does not inherit it
    under = machine.model, machine.window, machine.output, machine.policy, state.learnt, state.bounds, said
    machine.counts["folded alike"] += bool(said) and under in machine.baselines
    assert machine.baselines.setdefault(under, event.m0) == event.m0, "INV-6: the same summaries fold to other bytes"


def _named(machine: Machine, request: foldlog.Request, told: Told, cover: list[Any]) -> None:
    built, event = request.built, request._produced.event
    if not built.head:
        assert not cover, "INV-4: messages are left out, and nothing tells of them"
        return
    m0, m1 = (_said(raw) for raw in built.messages[built.leading : built.leading + 2])
    old, new = ([(int(a), int(b)) for a, b in _HEADING.findall(text)] for text in (m0, m1))
    assert len({*old, *new}) == len(old) + len(new), f"a compartment is told twice: {old}, {new}"
    spans = {(one.first, one.last): one.seq for one, _ in cover}
    strange = {*old, *new} - set(spans)
    assert not strange, f"INV-4: pass {event.number} tells of {strange}, and sends its messages, or not all of them"
    waited = [span for span, seq in spans.items() if seq not in told.base and seq in told.shown]
    texts = {(one.first, one.last): one.title != _NO_TEXT or set(one.tiers) != {_NO_TEXT} for one, _ in cover}
    assert new == [span for span in waited if texts[span]], f"INV-4: m[1] tells of {new}, new are {waited}"
    machine.counts["told"] += len(old) + len(new)


def _said(raw: bytes) -> str:
    content = json.loads(raw)["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def _pairs(items: list[host.Message], ends: list[int]) -> None:
    """INV-5: no compartment ends between a call and its result."""
    calls = {part["id"]: i for i, item in enumerate(items[: ends[-1]]) for part in item["parts"] if part["t"] == "call"}
    for i, item in enumerate(items):
        for part in item["parts"]:
            if part["t"] == "result" and part["id"] in calls:
                split = [end for end in ends if calls[part["id"]] < end <= i]
                assert not split, f"INV-5: the pair {part['id']} is split at {split}"


def _recovered(machine: Machine, request: foldlog.Request, covered: list[int], items: list[host.Message]) -> None:
    """Every covered message can be had back as the host has it now."""
    for m, item in zip(covered, items, strict=False):
        key = (machine.id, m, id(item))
        if key in machine.recovered:
            continue
        machine.recovered[key] = item
        for reply in request._session.expand(m, m):
            had = host.seen(machine.codec, json.loads(reply.json))
            assert had == host.seen(machine.codec, host.to_host(machine.codec, item, 0)), (
                f"expand({m}, {m}) gives {had!r}, not {item['parts']!r}"
            )
        machine.counts["recovered"] += 1


# ---------------------------------------------------------------------------------- steps


class Past:
    """The steps of summaries. A run begins in one process; its answer may come much later, or never."""

    def _told(self: Any, until: int | None = None) -> Told:
        told: Told = self.told.setdefault(self.id, Told())
        before = len(told.runs), told.failed, told.stale
        told.read(self.log.inner, f"session/api/{self.id}", until)
        for name, now, was in zip(
            ("publications", "failed runs", "stale"), (len(told.runs), told.failed, told.stale), before, strict=True
        ):
            self.counts[name] += now - was
        while told.replays:
            outage.recorded(self, told.replays.pop(0))
        return told

    def unmanaging(self: Any) -> bool:
        """Whether the session is to be left alone: compaction is off."""
        return bool(self.policy_now().get("compaction") is False)

    def behind(self: Any, first: int, last: int) -> bool:
        """Whether one of the tags belongs to a message behind the cut."""
        told, tags = self._told(), load(self.log, f"session/api/{self.id}").state.tags  # a stale process knows fewer
        covered = set(told.path[: told.index(told.cut) + 1])
        asked = range(first, last + 1)
        known = {n: tags[n - 1].m for n in asked if n <= len(tags)}
        owners = (known | {n: self.owners[n][3] for n in asked if n in self.owners}).values()
        return not covered.isdisjoint(owners)

    def summarised(self: Any, request: foldlog.Request) -> bool:
        """Whether a summary was begun or made since a request."""
        since = self.log.read(f"session/api/{self.id}", request._produced.version)
        return any(isinstance(s.event, ev.HistorianStarted | ev.HistorianPublished | ev.HistorianFailed) for s in since)

    def do_begin(self: Any, at: int = 0) -> None:
        """A run takes the lease on a stretch behind what is covered, which ends where no pair is split."""
        core = self.session().core
        state = core.hot().state
        if not state.primary or not state.path or not core.settings(state.policy, state.model).compaction:
            return
        offset = _offset(state)
        historian = Historian(Scripted(), host.count, inline=True)
        rows = [historian._row(state, place) for place in range(offset, len(state.path) + 1)]
        if len(rows) < 3:
            return
        arcs = find_arcs(((row.calls, row.results) for row in rows), offset)
        end = arcs.fence(offset + 1 + at % (len(rows) - 2), offset)
        if not offset < end <= len(state.path) or any(offset <= place < end for place in arcs.open):
            return
        found = Boundary(offset, end, end, "size-walk", False, 0, 0, False, len(state.path), 100)
        fault = self.log.fault
        try:
            work = historian._start(core, state, found)
        except foldlog.StoreError as error:
            assert fault, f"a store error out of nothing: {error}"
            return
        if work is not None:
            self.counts["begun"] += 1
            self.work = (core, self.id, historian, work)

    def do_end(self: Any, pieces: int = 1, outcome: int = 0) -> None:
        """The summariser of the newest run answers: well (0), with an error (1), rubbish (2), or a gap (3)."""
        if self.work is None:
            return
        (core, id_, historian, work), self.work = self.work, None
        pieces = max(pieces, 1)
        historian.summarizer = Scripted(pieces, outcome)
        here = id_ == self.id
        told = self._told() if here else None
        mine = told is not None and told.run == work.stretch.run
        before = (len(told.made), told.failed, told.stale) if told is not None else (0, 0, 0)
        path = list(told.path) if told is not None else []
        alone, fault = self.log.before is None, self.log.fault
        historian._summarise(work)
        try:
            with core.lock:
                historian._publish(core, work)
                work.published = False
                historian._publish(core, work)  # the thread of a run and a pass that waits for it may both come
        except foldlog.StoreError as error:
            assert fault, f"a store error out of nothing: {error}"
            return  # it is not tried again: its lease runs out
        if told is None or not alone or fault:
            return
        self._told()
        now = (len(told.made), told.failed, told.stale)
        members = list(work.stretch.ordinals)
        place = told.index(members[0])
        there = place >= 0 and path[place : place + len(members)] == members
        if not mine:
            assert now == before, "HIST-30: a run that lost its lease was stored"
        elif work.chunk.lines and outcome:
            assert now == (before[0], before[1] + 1, before[2]), f"HIST-28: outcome {outcome} ended as {before} {now}"
        elif not there:
            ends = ((before[0], before[1], before[2] + 1), (before[0], before[1] + (pieces > 1), before[2]))
            assert now in ends, f"HIST-31: a changed stretch ended as {before} {now}"
        else:
            unfit = pieces > 1 and now[1] > before[1]  # pieces that cut a pair in two
            assert now[0] > before[0] or now[2] > before[2] or unfit, f"not stored: {before} {now}"

    def do_lapse(self: Any, at: int = 0) -> None:
        """A lease runs out; another process takes over, and the first answer comes too late."""
        old = self.work
        self.wall += LEASE
        self._orphan()
        self.engines.reverse()
        self.work = None
        self.do_begin(at)
        if old is not None:
            new, self.work = self.work, old
            self.do_end()
            self.work = new

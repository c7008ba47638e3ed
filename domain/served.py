"""What a pass does to the state: what was sent, what left, what the next pass follows (``design.md`` 3)."""

from __future__ import annotations

from typing import TypeGuard

from . import events as ev
from . import hygiene, reminders, tools
from .arcs import arc, call_part
from .coverage import fresh, history
from .edits import Arrival, Edit, SetBody, SetText, SetThink
from .errors import LawBroken
from .paths import road
from .state import INLINE, TERSE, Fold, Last, Refusal, State, Tag, key, laid
from .todos import is_ours, keeps_list
from .transcript import Call, Message, Result, Text, Thinking

COUNTS_KEPT = 64
REARM = 500
"""How far below the force band, in 1/100 of a per cent, usage ends a stay in it (``transform.md`` 4.3)."""


def _arrive(state: State, arrivals: tuple[Arrival, ...]) -> None:
    for arrival in arrivals:
        m, message = arrival.m, state.nodes[arrival.m - 1].message
        for p, number in enumerate(arrival.tags, arrival.first):
            if number:
                _number(state, m, p, abs(number), message)
        for edit in arrival.edits:
            if isinstance(edit, SetThink) or _unnumbered(edit, message):
                state.spares[key(edit.m, edit.p)] = message.parts[edit.p].tokens
        state.unshown.pop(m, None)
        state.aside.pop(m, None)


def _unnumbered(edit: Edit, message: Message) -> TypeGuard[SetBody]:
    """Whether an edit leaves out a part no number tells of: half of an arc of ours that the host sent back, or the
    reasoning that led to a call that has left.
    """
    if not isinstance(edit, SetBody):
        return False
    part = message.parts[edit.p]
    return isinstance(part, Thinking) or (isinstance(part, Call | Result) and is_ours(part.id))


def _number(state: State, m: int, p: int, number: int, message: Message) -> None:
    part, tags = message.parts[p], state.tags
    tool = isinstance(part, Result)
    call = call_part(state, m, p) if tool else None
    tag = Tag(m, p, "tool" if tool else "text" if isinstance(part, Text) else "file", part.tokens)
    if number == len(tags) + 1:
        tags.append(tag)
    elif 0 < number <= len(tags) and tags[number - 1].m == m:
        tags[number - 1] = tag  # a revision keeps its number and shows its new content
        state.queue.pop(number, None)
    else:
        raise LawBroken("a tag number out of order", value=number, where=state.stream)
    place = key(m, p)
    if state.tag_of.get(place, number) != number:
        tools.forget(state, {state.tag_of[place]})  # another kind of part stands there now
        state.queue.pop(state.tag_of[place], None)
    state.tag_of[place] = number
    tools.numbered(state, m, p, number)
    if isinstance(part, Text) and part.inline:
        state.inline[place] = part.inline
    if call is not None and keeps_list(call.name):
        state.todos[number] = 1
    if tool and state.gone and arc(state, m, part) in state.gone:
        tag.status, tag.mode = "dropped", "full"  # its call is gone from the request, so it may not come back alone


def passed(state: State, event: ev.Pass) -> None:
    """Take in a request that was produced. Raises ``LawBroken`` for a number out of order."""
    if event.number != state.passes + 1:
        raise LawBroken("a pass number out of order", value=event.number, where=state.stream)
    _arrive(state, event.arrivals)
    state.passes = event.number
    state.seen = max(state.seen, event.now)
    if isinstance(event, ev.PassDeferred) and event.side is not None:
        if event.side.then:
            state.tips[event.side.then[-1][1]] = event.number
            state.sides[event.number] = (event.side.system, event.side.tools, event.side.model or state.model)
            beside = (m for first, last in event.side.then for m in range(first, last + 1))
            state.roads[event.number] = road(state, [*state.path[: event.side.keep], *beside])
        return  # beside the head: its last request stays what it was, and this usage is not the head's (PROP-7)
    _produced(state, event)
    if state.unshown:  # none of them is sent before the head moves: the passes until then do not look at them again
        state.aside.update(state.unshown)
        state.unshown = {}
    state.restless.row = state.restless.row + 1 if state.restless.fresh else 0
    state.restless.fresh = False
    if state.fold is not None:  # what was not known at the fold is adopted as it comes to be known, once
        state.fold.model, state.fold.tools = state.fold.model or state.model, state.fold.tools or state.tools_names
    decision = event.decision
    signals = decision.signals if decision is not None else ()
    if signals:
        _spend(state, event.number, signals)
    pressed = decision is not None and decision.schedule == "pressure"
    state.episode = (state.episode or event.number) if pressed else 0
    state.paid = state.paid if pressed else 0
    _stay(state, decision)
    _told(state, event)
    reminders.passed(state, event)
    hygiene.grow(state, event.arrivals)
    state.withheld = state.withheld + 1 if "thinking_hold" in signals else 0
    _waited(state, waited="summary_wait" in signals)
    if isinstance(event, ev.PassDeferred):
        if decision is not None and decision.held:
            state.held += 1
        elif not state.queue:
            state.held = 0
        return
    _landed(state, event)
    state.unbound = 0
    state.concealed = [m for m in state.concealed if state.pos.get(m, -1) < event.decision.reach]
    state.paid = decision.tokens if pressed and decision is not None else 0
    state.looked = max(state.looked, decision.looked if decision is not None else 0)
    state.held, state.swept = 0, len(state.tags)
    state.rebuilt, state.rebuilt_now, state.adopted = event.number, state.seen, event.adopted
    if state.usage and state.usage.number < event.number:
        state.usage = None
    state.reopened = False
    state.sides, state.roads = {}, {}
    state.tips = dict.fromkeys(state.tips, 0)  # the branches are known; their requests are not what a rebuild follows
    before = state.cut
    if isinstance(event, (ev.HistoryRefreshed, ev.BaselineFolded)):
        shown = _cut(state, event.cut)
        if isinstance(event, ev.HistoryRefreshed) and state.fold is not None:
            state.fold.head_tokens = event.head_tokens
    if isinstance(event, ev.BaselineFolded):
        state.called = state.called and event.cut == before
        state.fold = Fold(
            event.number,
            state.seen,
            state.model,
            state.system_hash,
            state.tools_names,
            event.guidance,
            event.head_tokens,
        )
        state.wire = event.wire
        state.compacted = 0
        state.void, state.baseline = False, shown
    hygiene.measure(state)


def _landed(state: State, event: ev.Rebuild) -> None:
    """Take in what left the request, and what of it came back."""
    state.spares.update((key(m, p), tokens) for m, p, tokens in event.spares)
    for number, mode in event.landed:
        tag = state.tags[number - 1]
        if key(tag.m, tag.p) in state.inline and mode not in TERSE:
            state.inline[key(tag.m, tag.p)] = 0
        if mode == INLINE:
            continue
        tag.mode = mode
        if mode in TERSE:
            continue
        tag.status = "dropped"
        state.spares.pop(key(tag.m, tag.p), None)
        part = state.node(tag.m).message.parts[tag.p]
        if mode == "full" and isinstance(part, Result):
            state.gone[arc(state, tag.m, part)] = number
        elif isinstance(part, Result):
            state.gone.pop(arc(state, tag.m, part), None)  # it came back in part (DROP-13)
        state.queue.pop(number, None)


def _spend(state: State, number: int, signals: tuple[str, ...]) -> None:
    """Take back the signals this pass has used: each is one pass's alone, whatever came of it (T10)."""
    if "flush" in signals:
        state.flush, state.flushed_by = False, number
    if "picture_recovery" in signals:
        state.bulky = False
    if "cache_loss" in signals:
        state.lost = ""
    if "open_rebuild" in signals:
        state.reopened, state.reopened_by = False, number
    if "floor_mark" in signals:
        state.marked = number


def _waited(state: State, *, waited: bool) -> None:
    """Keep that a pass waited in vain for the run that is on: each is waited for once (T37)."""
    if waited and state.run is not None:
        state.run.waited = True


def _told(state: State, event: ev.Pass) -> None:
    """Keep what was said to the agent: a nudge, a message of its own."""
    edits = [edit for arrival in event.arrivals for edit in arrival.edits]
    nudge = next((edit for edit in edits if isinstance(edit, SetText) and edit.kind == "nudge"), None)
    if nudge is not None:
        hygiene.told(state, nudge.m)
    if any(insert.id.startswith("call-") for insert in event.inserts):
        state.called = True
    if event.inserts:
        state.units = laid(state.units, event.inserts)


def _stay(state: State, decision: ev.Decision | None) -> None:
    """Keep the usage at the emergency batch of this stay in the force band, until usage leaves it."""
    adopted = state.adopted
    if decision is None:
        return
    if decision.source == "provider" and adopted is not None and decision.percent < adopted.force - REARM:
        state.drained = None
    if any(did.landed and did.lane == "emergency" for did in decision.lanes):
        state.drained = decision.tokens


def _cut(state: State, cut: int) -> list[int]:
    """Move the cut, and return which summaries lie before it.

    What it covers is no longer in the request, so nothing of it waits to be dropped.
    """
    before, after = state.start(), state.pos.get(cut, -1) + 1 if cut else 0
    for number in list(state.queue):  # far fewer than the parts a first fold covers
        tag = state.tags[number - 1]
        covered = before <= state.pos.get(tag.m, -1) < after and tag.p < len(state.node(tag.m).message.parts)
        if covered and state.tag_of.get(key(tag.m, tag.p)) == number:
            del state.queue[number]
    state.cut = cut
    shown = [one.seq for one in history(state) if state.pos[one.last] < after]
    state.rendered = max(shown, default=-1)
    state.fresh, state.marked = fresh(state), 0
    return shown


def _produced(state: State, event: ev.Pass | ev.LastGoodReplayed) -> None:
    """The head's last request is now this one: what the next one extends, and what its usage is counted against."""
    state.counted[event.number] = event.tokens
    if len(state.counted) >= 2 * COUNTS_KEPT:
        state.counted = dict(list(state.counted.items())[-COUNTS_KEPT:])
    state.unmanaged = False
    state.tips.pop(state.end(), None)
    state.last = Last(event.number, state.end(), event.digest, event.tokens, state.seen)
    state.base, state.base_len, state.base_keep = event.number, len(state.path), len(state.path)
    state.base_part, state.base_cause, state.base_rest, state.base_torn = 0, "", [], None
    state.base_system, state.base_tools, state.base_model = state.system, state.tools, state.model


def refused(state: State, event: ev.PassRefused) -> None:
    """Take in that a request was not to be sent."""
    state.passes = event.number
    state.seen = max(state.seen, event.now)
    state.unmanaged = state.unmanaged or event.code == "UNMANAGED_OVER_WINDOW"
    state.refusal = Refusal(event.number, event.code, event.message, state.seen)
    _waited(state, waited=event.waited)
    if state.overflow is not None and event.code == "CONTEXT_FULL":
        state.overflow.refused += 1


def replayed(state: State, event: ev.LastGoodReplayed) -> None:
    """Take in what went out while the store could not be written."""
    _arrive(state, event.arrivals)
    state.concealed += [arrival.m for arrival in event.arrivals if any(number > 0 for number in arrival.tags)]
    state.passes = event.number
    state.seen = max(state.seen, event.now)
    _produced(state, event)

"""The state of one session: a fold of its events, and nothing else (``design.md`` 3 and 5).

``evolve`` owns the state and changes it in place, only with events the store has accepted. ``decide`` reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import events as ev
from . import hygiene, items, measured, reminders, served, tools
from .arcs import maker
from .coverage import fresh
from .errors import LawBroken
from .paths import request_of, rest_of, road, shown_of
from .policy import managed
from .ranges import ranges
from .state import Node, Restless, Run, State, key
from .transcript import Call, Message, Result

COMMANDS_KEPT = 1000
UNBOUND = "unbound"
BULKY = "bulky"
"""How a request ended whose signed reasoning the provider took for that of another conversation (4.6)."""
STALE = "stale"
"""The kind of a run whose stretch the host changed meanwhile: nobody's failure, so it counts for none."""
GONE = "gone"
"""The kind of a run whose process is no more: it counts for none either."""


def evolve(state: State, version: int, event: ev.Event) -> None:
    """Take ``event``, stored at ``version``, into ``state``. Raises ``LawBroken`` for one that cannot follow."""
    kind = type(event)
    handler = _HANDLERS.get(kind)
    if handler is None:
        raise LawBroken(f"an event of kind {kind.__name__} does not belong into a session", where=state.stream)
    if not state.codec and kind not in _OPENINGS:
        raise LawBroken("a session's first event must open it", value=kind.__name__, where=state.stream)
    handler(state, event)
    if event.cmd:
        _remember(state, event)
    state.version = version
    if kind in _OUTCOMES:
        state.last_version = version


_OPENINGS = frozenset((ev.SessionOpened, ev.SessionForked))
_OUTCOMES = frozenset(
    (
        ev.PassDeferred,
        ev.ConversationRebuilt,
        ev.HistoryRefreshed,
        ev.BaselineFolded,
        ev.PassRefused,
        ev.LastGoodReplayed,
    )
)


def _remember(state: State, event: ev.Event) -> None:
    commands = state.commands
    commands[event.cmd] = event.reply if type(event) is ev.DropsQueued else ""
    if len(commands) >= 2 * COMMANDS_KEPT:
        state.commands = dict(list(commands.items())[-COMMANDS_KEPT:])


def _opened(state: State, event: ev.SessionOpened) -> None:
    if state.codec:
        raise LawBroken("the session is opened a second time", where=state.stream)
    state.harness, state.session, state.codec = event.harness, event.session, event.codec
    state.mode, state.reduce, state.wire, state.tokenizer = event.mode, event.reduce, event.wire, event.tokenizer


def _forked(state: State, event: ev.SessionForked) -> None:
    # the parent's state is already here; what a provider measured of it is not the child's (design.md 3, Forks)
    state.harness, state.session = event.harness, event.session
    state.usage, state.learnt, state.overflow, state.lost = None, None, None, ""
    state.accepted, state.refusal, state.restless = 0, None, Restless()
    state.ratios, state.counted, state.reopened, state.held = {}, {}, False, 0
    # to its provider the child is new: what nothing has made smaller yet is looked at like a first pass (T50)
    state.unmanaged = not state.compartments and all(tag.status == "active" for tag in state.tags)
    state.flush, state.flushed_by, state.tips, state.commands = False, 0, {}, {}
    state.drained, state.paid, state.unbound, state.bulky, state.withheld = None, 0, 0, False, 0
    state.failures = 0
    keep = state.pos[event.head] + 1 if event.head else 0
    state.void, state.run = state.void or keep < state.start(), None
    _set_path(state, keep, ())
    _touched(state, keep, 0, "fork")


def _model(state: State, event: ev.ModelChanged) -> None:
    if event.model != state.model:
        state.usage, state.overflow, state.held, state.counted, state.accepted = None, None, 0, {}, 0
        state.drained, state.failures = None, 0
        if state.learnt and state.learnt[0] != event.model:
            state.learnt = None
    state.paid = 0
    state.model, state.context_limit, state.output_limit = event.model, event.context_limit, event.output_limit


def _system(state: State, event: ev.SystemChanged) -> None:
    if state.system:
        state.restless.before, state.restless.fresh = state.system, True
    state.system, state.system_hash, state.system_tokens = event.body, event.hash, event.tokens


def _tools(state: State, event: ev.ToolsChanged) -> None:
    state.tools, state.tools_hash, state.tools_names = event.body, event.hash, event.names
    state.tools_tokens = event.tokens


def _policy(state: State, event: ev.PolicyChanged) -> None:
    if managed(state.policy) and not managed(event.policy):
        _switched_off(state)
    state.policy = event.policy


def _switched_off(state: State) -> None:
    """The host has its window to itself: what was marked, asked for or held stays undone for good (8.1)."""
    state.queue, state.flush, state.lost, state.reopened, state.held = {}, False, "", False, 0
    state.overflow, state.unbound, state.bulky, state.withheld, state.unmanaged = None, 0, False, 0, False
    state.drained, state.paid, state.episode, state.marked, state.failures = None, 0, 0, 0, 0
    state.reduced, state.nudged, state.called = False, None, False


def _observed(state: State, event: ev.MessagesObserved) -> None:
    if event.after > len(state.nodes):
        raise LawBroken("messages behind a node that does not exist", value=event.after, where=state.stream)
    extends = event.after == state.end() and not event.side
    parent, m = event.after, len(state.nodes)
    nodes, path, pos, unshown, said = state.nodes, state.path, state.pos, state.unshown, False
    for message in event.messages:
        nodes.append(Node(parent, message))
        m += 1
        unshown[m] = 0
        _link(state, m, message)
        if extends:
            pos[m] = len(path)
            path.append(m)
        parent = m
        said = said or message.role == "assistant"
    if extends and said and state.last is not None:
        # answered, with usage unknown (convention 19): kept, or the next pass would not know and fold for idleness
        state.response_now = max(state.response_now, state.last.now)
        if state.overflow is not None and state.last.number > state.overflow.number:
            state.overflow = None  # the model answered a later request (convention 19)
        if state.last.number > state.unbound:
            state.unbound = 0


def _revised(state: State, event: ev.PartsRevised) -> None:
    node = state.node(event.m)
    for p in range(len(node.message.parts)):
        number = state.tag_of.get(key(event.m, p), 0)
        if number and not state.tags[number - 1].body:
            state.tags[number - 1].body = node.message.body  # an original can be found for ever
        if number and p >= len(event.message.parts):
            state.queue.pop(number, None)  # the part is gone: nothing is left to drop, and its place may be filled anew
            del state.tag_of[key(event.m, p)]
            tools.forget(state, {number})
        if p >= event.first:
            state.known = hygiene.MOVED if number else state.known  # what only grew at its end was counted as it is
            state.spares.pop(key(event.m, p), None)
            state.inline.pop(key(event.m, p), None)
            owner = state.call_of.pop(key(event.m, p), 0)
            if owner:
                state.answers[owner] -= 1
    if state.hosts.get(node.message.host_id) == event.m:
        del state.hosts[node.message.host_id]
    node.message, node.revision = event.message, node.revision + 1
    waits = state.waits(event.m)
    state.unshown[event.m] = event.first if waits is None else min(event.first, waits)
    state.aside.pop(event.m, None)
    _link(state, event.m, event.message)
    if event.m in state.pos:
        index = state.pos[event.m]
        _touched(state, index, event.first, "revised", rest_of(state, index))
    _tear(state, event.m, event.first)
    if event.m == state.reminder.m and event.first <= state.reminder.p:
        reminders.void(state)


def _touched(state: State, index: int, part: int, cause: str, rest: list[int] | None = None) -> None:
    """The last request's path is not the head's from ``index`` on: the host's doing, kept until a pass says so.

    ``rest``: that path from there on, None where it is not known.
    """
    # what a summary covers no request holds; where the head leaves that too, the next one may begin before it
    if index < state.base_keep and (state.void or state.start() <= index):
        state.base_keep, state.base_part, state.base_cause, state.base_rest = index, part, cause, rest


def _tear(state: State, m: int, first: int) -> None:
    """Keep the first message at the end of the last request's path that is not what it was, and from which part on."""
    rest = shown_of(state, state.base_rest or ())
    if m not in rest:
        return
    torn = state.base_torn
    if torn is None or (rest.index(m), first) < (rest.index(torn[0]), torn[1]):
        state.base_torn = (m, first)


def _link(state: State, m: int, message: Message) -> None:
    """Pair results with their calls: (call id, owner), so a reused id never inherits another turn's drop (T8)."""
    # beside the head other copies of its messages may have the names it has
    if message.host_id and (m in state.pos or state.hosts.get(message.host_id, 0) not in state.pos):
        state.hosts[message.host_id] = m
    own: dict[str, int] = {}
    for p, part in enumerate(message.parts):
        if isinstance(part, Call):
            state.calls[part.id] = own[part.id] = key(m, p)
        elif isinstance(part, Result) and (owner := own.get(part.id) or _owner(state, m, part.id)):
            state.call_of[key(m, p)] = owner
            state.answers[owner] = state.answers.get(owner, 0) + 1


def _owner(state: State, m: int, call: str) -> int:
    """Return the key of the call a result of message ``m`` answers: of the answer before it, else the newest."""
    nodes = state.nodes
    above = nodes[m - 1].parent
    if state.codec == items.CODEC:
        made_by = maker(state, above, call)
        return key(made_by, 0) if made_by else 0
    while above and nodes[above - 1].message.role != "assistant":
        above = nodes[above - 1].parent
    if above:
        for p, part in enumerate(nodes[above - 1].message.parts):
            if isinstance(part, Call) and part.id == call:
                return key(above, p)
    return state.calls.get(call, 0)


def _moved(state: State, event: ev.HeadMoved) -> None:
    old, was = state.end(), (state.base_system, state.base_tools, state.base_model)
    same = state.last is not None and state.base == state.last.number
    same = same and state.base_keep == state.base_len == len(state.path)
    left, rest = road(state, state.path) if same else b"", rest_of(state, event.keep)
    then = tuple(m for first, last in event.then for m in range(first, last + 1))
    if event.keep > len(state.path) or any(not 0 < m <= len(state.nodes) for m in then):
        raise LawBroken("the head cannot move there", value=(event.keep, event.then), where=state.stream)
    if event.keep < state.start():
        state.void = True  # the head now leaves what the summaries cover: the next pass folds (design.md 4)
    _set_path(state, event.keep, then)
    if state.last is not None and any(m in state.unshown and state.node(m).message.role == "assistant" for m in then):
        state.response_now = max(state.response_now, state.last.now)  # as where it extends the head
    tip = next(
        (index for index in range(len(state.path) - 2, event.keep - 1, -1) if state.path[index] in state.tips), -1
    )
    number = request_of(state, state.path[: tip + 1]) if tip >= 0 and event.cause == "branch" else 0
    if number:
        state.base, state.base_len = number, tip + 1
        state.base_system, state.base_tools, state.base_model = state.sides.get(state.base, was)
        state.base_keep, state.base_part, state.base_cause = tip + 1, 0, ""
        state.base_rest, state.base_torn = [], None
    else:
        _touched(state, event.keep, 0, event.cause, rest)
    if event.cause in ("branch", "rewind") and old and old not in state.pos:
        state.tips[old] = state.last.number if state.last else 0
        if state.last:
            state.sides[state.last.number] = was
            state.roads[state.last.number] = left
    state.tips.pop(state.end(), None)


def _set_path(state: State, keep: int, then: tuple[int, ...]) -> None:
    state.known = hygiene.MOVED
    tools.left(state, state.path[keep:])
    for m in state.path[keep:]:
        state.pos.pop(m, None)
    if keep < len(state.path):
        state.left[state.path[keep - 1] if keep else 0] = 1  # a path may come back through here
    del state.path[keep:]
    for m in then:
        before = state.end()
        if state.node(m).parent != before and m not in state.fostered.get(before, ()):
            state.fostered.setdefault(before, []).append(m)
        state.pos[m] = len(state.path)
        state.path.append(m)
        if name := state.node(m).message.host_id:
            state.hosts[name] = m
        tools.came(state, m)
    state.unshown.update(state.aside)
    state.aside, state.fresh = {}, fresh(state)


def _outcome(state: State, event: ev.RequestOutcome) -> None:
    if event.outcome == UNBOUND and event.number in state.counted:
        state.unbound = event.number
    if event.outcome == BULKY and event.number in state.counted:
        state.bulky = True
    if (
        event.outcome not in ("not_processed", UNBOUND, BULKY)
        or state.last is None
        or event.number != state.last.number
    ):
        return
    if state.last.answered and event.outcome == "not_processed":
        return  # of a copy: what a host sends twice was processed if one of the two was
    reminders.untaken(state, event.number)
    if event.number in (state.rebuilt, state.reopened_by):
        state.reopened = True
    if event.number == state.flushed_by:
        state.flush = True


def _cache_lost(state: State, event: ev.CacheLossReported) -> None:
    state.lost = event.reason or "reported"


def _compacted(state: State, event: ev.HostCompacted) -> None:
    state.compacted = event.m


def _queued(state: State, event: ev.DropsQueued) -> None:
    state.reduced, state.nudged = True, None
    for tag in event.tags:
        state.queue.setdefault(tag, state.passes)


def _started(state: State, event: ev.HistorianStarted) -> None:
    state.run = Run(event.run, event.first, event.last, event.owner, event.lease)


def _published(state: State, event: ev.HistorianPublished) -> None:
    state.compartments.extend(event.compartments)
    _span(state, event.compartments)
    state.run, state.failures, state.marked, state.fresh = None, 0, 0, fresh(state)
    reminders.occasion(state)


def _failed(state: State, event: ev.HistorianFailed) -> None:
    state.run, state.marked = None, 0  # a mark is for one run: it must not lift the limit of failures for ever
    if event.kind not in (STALE, GONE):
        state.failures, state.failed, state.complaint = state.failures + 1, state.passes, event.message


def _replaced(state: State, event: ev.CompartmentsReplaced) -> None:
    kept = [one for one in state.compartments if one.seq not in event.old]
    state.compartments = sorted([*kept, *event.new], key=lambda one: one.seq)
    _span(state, event.new)
    state.void, state.fresh = True, fresh(state)


def _span(state: State, made: Sequence[ev.Compartment]) -> None:
    for one in made:
        first, last = state.pos.get(one.first, 0), state.pos.get(one.last, -1)
        state.spans[one.seq] = list(ranges(tuple(state.path[first : last + 1])))


def _flush(state: State, event: ev.FlushRequested) -> None:
    state.flush = True
    state.failures = min(state.failures, measured.RETRIED - 1)


def _nothing(state: State, event: Any) -> None:
    """Facts kept for people and later lanes; no decision of this version reads them."""


_HANDLERS: dict[type, Any] = {
    ev.SessionOpened: _opened,
    ev.SessionForked: _forked,
    ev.ModelChanged: _model,
    ev.SystemChanged: _system,
    ev.ToolsChanged: _tools,
    ev.PolicyChanged: _policy,
    ev.MessagesObserved: _observed,
    ev.PartsRevised: _revised,
    ev.HeadMoved: _moved,
    ev.UsageReported: measured.usage,
    ev.RequestOutcome: _outcome,
    ev.OverflowReported: measured.overflow,
    ev.CacheLossReported: _cache_lost,
    ev.HostCompacted: _compacted,
    ev.SessionClosed: _nothing,
    ev.HeadLost: _nothing,
    ev.DropsQueued: _queued,
    ev.FlushRequested: _flush,
    ev.RecompRequested: _nothing,
    ev.WrapupRequested: _nothing,
    ev.PurgeRequested: _nothing,
    ev.HistorianStarted: _started,
    ev.HistorianPublished: _published,
    ev.HistorianFailed: _failed,
    ev.CompartmentsReplaced: _replaced,
    ev.PassDeferred: served.passed,
    ev.ConversationRebuilt: served.passed,
    ev.HistoryRefreshed: served.passed,
    ev.BaselineFolded: served.passed,
    ev.PassRefused: served.refused,
    ev.LastGoodReplayed: served.replayed,
}

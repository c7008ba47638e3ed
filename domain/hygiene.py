"""How much of what is sent could be marked as spent: counted at rebuilds, carried on between (``transform.md`` 6.1).

``tail`` is all that is sent behind the head, ``spent`` the tool output and files of it that nothing protects;
``outputs`` and ``files`` are how many these are, ``oldest`` the numbers of the first few that are worth naming. A pass
costs what it brings, however long the session is.
"""

from __future__ import annotations

from collections.abc import Iterable

from . import costs
from .arcs import call_part
from .edits import Arrival
from .state import State, key
from .todos import keeps_list

MIN_TOOLS = 3
"""Tools whose output is protected however large it is."""
LEVELS = ((60, "urgent"), (40, "firm"), (20, "gentle"))
"""From which share of spent output, in per cent, a nudge says what (6.2)."""
LARGE, WORTH = 60_000, 25_000
"""Tokens sent, and of these spent, from which the agent is nudged at all (6.2)."""
NAMED_WORTH, KEPT = 250, 16
"""Tokens from which an output is worth naming, and how many such are kept: a nudge names the first not yet marked."""
MOVED = -1
"""What ``known`` is where the host changed the history that was counted: the next pass counts anew, once."""
UNCOUNTED = -1
"""What ``tail`` is where counting broke: nothing is said of it until a rebuild counts anew (FAIL-4)."""


def calibrated(state: State, tokens: int) -> int:
    """Return local ``tokens`` in the provider's count, by the ratio the last rebuild adopted (T45), rounded up."""
    ratio = state.adopted.ratio if state.adopted is not None else 1000
    return -(-tokens * ratio // 1000)


def measure(state: State) -> None:
    """Begin anew with a rebuild: count, and forget what the agent was told and did about the last count."""
    try:
        _count(state)
    except Exception:  # noqa: BLE001 - no request depends on these figures, and a log must always fold (FAIL-4)
        state.tail = UNCOUNTED
        return
    state.reduced = False
    if state.nudged is not None and state.spent < state.nudged[1]:
        state.nudged = None
    state.called = state.called and state.spent >= WORTH


def _count(state: State) -> None:
    order = state.tools_order
    floor = state.adopted.floor if state.adopted is not None else 0
    state.edge, state.guarded, state.known = len(order), 0, len(order)
    while state.edge and (calibrated(state, state.guarded) < floor or len(order) - state.edge < MIN_TOOLS):
        state.edge -= 1
        state.guarded += state.tags[order[state.edge] - 1].tokens
    newest = order[state.edge] if state.edge < len(order) else len(state.tags) + 1
    state.tail = state.spent = state.outputs = state.files = 0
    state.oldest = []
    for m in state.path[state.start() :]:
        for p, part in enumerate(state.node(m).message.parts):
            number = state.tag_of.get(key(m, p), 0)
            tag = state.tags[number - 1] if number else None
            if tag is not None and tag.status == "dropped":
                continue
            cost = costs.left(state, m, p, part.tokens)
            state.tail += cost
            if tag is not None and (tag.kind == "file" or (tag.kind == "tool" and number < newest)):
                _spend(state, number, cost)


def _spend(state: State, number: int, cost: int) -> None:
    """Take in an output or a file that is sent and that nothing protects."""
    tag = state.tags[number - 1]
    state.spent += cost
    if tag.kind == "file":
        state.files += 1
    else:
        state.outputs += 1
    if len(state.oldest) < KEPT and cost >= NAMED_WORTH:
        call = call_part(state, tag.m, tag.p)
        if tag.kind == "file" or (call is not None and not keeps_list(call.name)):
            state.oldest.append(number)


def grow(state: State, arrivals: Iterable[Arrival]) -> None:
    """Take in what a pass shows for the first time: it adds to the tail; what leaves protection adds to the spent."""
    if state.tail == UNCOUNTED:
        return
    try:
        if state.known == MOVED:
            _count(state)
        else:
            _grow(state, arrivals)
    except Exception:  # noqa: BLE001 - as above (FAIL-4)
        state.tail = UNCOUNTED


def _grow(state: State, arrivals: Iterable[Arrival]) -> None:
    tail, nodes, tags = state.tail, state.nodes, state.tags
    for arrival in arrivals:
        parts = nodes[arrival.m - 1].message.parts
        for part in parts[arrival.first :] if arrival.first else parts:
            tail += part.tokens
    state.tail = tail
    known = state.tools_order
    while state.known < len(known):
        state.guarded += tags[known[state.known] - 1].tokens
        state.known += 1
    _move(state)


def _move(state: State) -> None:
    """Move the edge of protection to where it stands with the output that is there now."""
    order = state.tools_order
    floor = state.adopted.floor if state.adopted is not None else 0
    while len(order) - state.edge > MIN_TOOLS:
        tag = state.tags[order[state.edge] - 1]
        if calibrated(state, state.guarded - tag.tokens) < floor:
            break
        state.guarded -= tag.tokens
        if tag.status == "active" and state.pos.get(tag.m, -1) >= state.start():
            _spend(state, order[state.edge], costs.of(state, tag))
        state.edge += 1


def level(state: State) -> str:
    """Return how loud a nudge would be now, empty for none (6.2)."""
    if state.reduced or state.tail < LARGE or state.spent < WORTH:
        return ""
    return next((name for share, name in LEVELS if severity(state) >= share), "")


def told(state: State, m: int) -> None:
    """Keep that the agent was nudged behind an output of message ``m``, and at which figures."""
    state.nudged = (level(state), state.spent, m)


def severity(state: State) -> int:
    """Return the share of what is sent that could be marked as spent, in per cent."""
    return min(state.spent * 100 // max(state.tail, 1), 100)

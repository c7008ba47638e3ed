"""Lane: tools leave by tiers where the window is nearly full (``transform.md`` 4.2, 4.3).

All figures are tokens in the provider's count. One batch a stay in the force band; what the provider has not measured
anew is not planned anew (T19).
"""

from __future__ import annotations

from ... import costs, items
from ...arcs import call_part
from ...identity import Scene
from ...names import AGENTS, LISTS, PATCHES, READS, SEARCHES, WRITES, plain
from ...state import PARTS_LIMIT, key
from ...transcript import Call
from ..schedule import calibrated
from .drops import drop
from .shape import Ask, Item, Work

NAME = "emergency"
WORTH = 2_000
"""Less than this is not worth a batch."""
AIM = 30
"""Per cent of the room above what no drop can reach that may stay filled."""
RESERVE = 20
"""Per cent of the newest of tiers 1 and 2 that stay, rounded up."""
FIRST = READS | LISTS | AGENTS
SECOND = SEARCHES | WRITES | PATCHES


def tier(name: str) -> int:
    """Return how long results of a tool are kept: 1 the longest, 3 the shortest."""
    own = plain(name)
    return 1 if own in FIRST else 2 if own in SECOND else 3


def plan(ask: Ask) -> Work:
    """Choose the oldest tools, tier 3 first, until usage would be back at the aim."""
    gauge, state = ask.gauge, ask.scene.state
    if not gauge.force or not gauge.ceiling or gauge.tokens <= 0 or not _armed(ask):
        return Work(NAME)
    active = _active(ask)
    covered = {number for number in active if ask.scene.index(state.tags[number - 1].m) < ask.start}
    numbers = [number for number in active if number not in ask.taken and number not in covered]
    sizes = {number: calibrated(state, state.model, _mass(ask, number)) for number in numbers}
    freed = ask.freed + sum(_mass(ask, number) for number in covered)  # by a summary of this pass
    used = gauge.tokens - calibrated(state, state.model, freed)
    ceiling = gauge.window.soft * gauge.bands.execute // 10_000
    fixed = max(used - sum(sizes.values()), 0)
    reclaim = used - (fixed + max(ceiling - fixed, 0) * AIM // 100)
    if reclaim <= WORTH:
        return Work(NAME)
    taken: list[Item] = []
    recent: frozenset[int] = frozenset() if gauge.emergency else ask.recent
    for number in _order(ask, numbers):
        item = drop(ask.scene, number, recent, kept=_unread(ask.scene, number))
        if item is None or item.index < ask.begin or item.net <= 0:
            continue
        taken.append(item)
        reclaim -= calibrated(state, state.model, item.frees)
        if reclaim <= 0:
            break
    if not ask.rides and calibrated(state, state.model, sum(item.frees for item in taken)) <= WORTH:
        return Work(NAME)  # what can go is not worth a rebuild of its own
    return Work(NAME, tuple(taken))


def _armed(ask: Ask) -> bool:
    last = ask.scene.state.drained
    return last is None or (ask.rides and last != ask.gauge.tokens)


def _active(ask: Ask) -> list[int]:
    """Return the tags of all that is still sent, oldest first: the floor of the plan counts every kind (T20)."""
    scene, begin = ask.scene, ask.scene.start()
    tags = enumerate(scene.state.tags, 1)
    return [number for number, tag in tags if tag.status == "active" and scene.index(tag.m) >= begin]


def _mass(ask: Ask, number: int) -> int:
    """Return what leaves with a tag: its call too, and on a wire of items the reasoning that led to it (ITEM-5)."""
    scene, state = ask.scene, ask.scene.state
    tag = state.tags[number - 1]
    call = call_part(state, tag.m, tag.p) if tag.kind == "tool" else None
    if not isinstance(call, Call):
        return costs.of(state, tag)
    cm, cp = divmod(state.call_of[key(tag.m, tag.p)], PARTS_LIMIT)
    thought: tuple[int, ...] = ()
    if state.codec == items.CODEC:
        thought = items.companions(scene, cm) or ()
    led = sum(costs.left(state, m, p, part.tokens) for m in thought for p, part in enumerate(scene.message(m).parts))
    return costs.of(state, tag) + costs.left(state, cm, cp, call.tokens) + led


def _order(ask: Ask, numbers: list[int]) -> list[int]:
    """Return the candidates as they would leave: tier 3, 2, 1, oldest first, the newest of 2 and 1 kept back.

    What the model has not read yet comes last: without it, it would do the same once more.
    """
    state = ask.scene.state
    tiers: dict[int, list[int]] = {1: [], 2: [], 3: []}
    for number in numbers:
        tag = state.tags[number - 1]
        if tag.kind != "tool" or number in ask.spared:
            continue
        call = call_part(state, tag.m, tag.p)
        if call is not None:
            tiers[tier(call.name)].append(number)
    if not ask.gauge.emergency:
        for level in (1, 2):
            kept = -(-len(tiers[level]) * RESERVE // 100)
            tiers[level] = tiers[level][: len(tiers[level]) - kept]
    order = [*tiers[3], *tiers[2], *tiers[1]]
    return sorted(order, key=lambda number: _unread(ask.scene, number))


def _unread(scene: Scene, number: int) -> bool:
    """Whether the model has said nothing behind a result yet.

    After a refusal a host may ask it to go on with words of its own, and a person may speak into a turn.
    """
    index = scene.index(scene.state.tags[number - 1].m)
    behind = (scene.message(scene.at(place)) for place in range(index + 1, scene.length()))
    return not any(message.role == "assistant" and message.parts for message in behind)

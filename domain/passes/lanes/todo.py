"""Lane: the agent's newest to-do list, said again where the call that said it has left the request.

``transform.md`` 6.5. It changes nothing before the first byte the rebuild changes anyway, so it costs no cache and, on
models whose reasoning is bound to what stands before it, no reasoning.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from operator import itemgetter
from typing import Any

import msgspec

from ... import items
from ...edits import Insert
from ...identity import Scene
from ...names import plain
from ...state import PARTS_LIMIT, key
from ...todos import Arc, arc, is_ours, keeps_list
from ...transcript import Call, Result, Thinking
from .places import places
from .reasoning import SURVIVES
from .shape import TOOLS, Ask, Item, Part, Work

NAME = "todo"
SHARE = 20
"""A list larger than this part of the usable window is not said again."""


class Newest(msgspec.Struct, frozen=True):
    """The newest to-do call that ended well: its path index, both halves, and whether this pass shows it first."""

    index: int
    result: Part
    call: Part
    fresh: bool


def wants(ask: Ask) -> frozenset[Part]:
    """Return what the newest list says, and which tools there are."""
    found = newest(ask.scene) if ask.scene.state.primary else None
    return frozenset() if found is None or found.fresh else frozenset((found.call, TOOLS))


def plan(ask: Ask) -> Work:
    """Say the newest list again where it has left; take away what no longer holds. Never the reason of a rebuild."""
    first = ask.begin if ask.headed else ask.first
    lands = ask.headed or (ask.busy and (ask.wanted or ask.net > ask.least))
    if first is None or not lands or not ask.scene.state.primary:
        return Work(NAME)
    found = newest(ask.scene)
    wanted = _wanted(ask, found)
    work, there = _taken_away(ask, first, found, wanted)
    if found is None or wanted is None or there:
        return work
    tokens = _tokens(ask, found, wanted)
    room = ask.wanted or ask.net + sum(item.net for item in work.items) - tokens > ask.least
    place = _place(ask, first, found) if room and tokens * SHARE <= ask.gauge.window.soft else -1
    if place < 0:
        return work
    m = ask.scene.at(place)
    insert = Insert(m, max(len(ask.scene.message(m).parts) - 1, 0), wanted.id, "arc", wanted.digest, tokens=tokens)
    items = (*work.items, Item(0, "", (), 0, place + 1, -tokens))
    return Work(NAME, items, {wanted.digest: wanted.data}, (*work.inserts, insert))


def _taken_away(ask: Ask, first: int, found: Newest | None, wanted: Arc | None) -> tuple[Work, bool]:
    """Take away the arcs that say another list, or stand where they may not; and whether the wanted one is there.

    One before the first byte this rebuild changes waits for another, and stands for the past until then.
    """
    gone: list[tuple[Item, Insert]] = []
    there = False
    for id, unit in ask.scene.state.units.items():
        index = ask.scene.index(unit.m)
        same = wanted is not None and id == wanted.id
        if not is_ours(id) or (same and found is not None and _stands(ask, index, found)):
            there = there or same
        elif index < 0 or (ask.headed and index < ask.start) or (index >= ask.begin and index + 1 >= first):
            net = unit.tokens if index >= ask.start else 0
            gone.append((Item(0, "", (), 0, max(index + 1, first), net), Insert(unit.m, 0, id, "none")))
        else:
            there = there or same
    return Work(NAME, tuple(item for item, _ in gone), inserts=tuple(insert for _, insert in gone)), there


# ------------------------------------------------------------------- the list


def newest(scene: Scene) -> Newest | None:
    """Return the newest to-do call on the path that ended well, by its place."""
    coming = scene.unshown()
    found = [*islice(_known(scene, {m for m, _ in coming}), 1), *_arriving(scene, coming)]
    return max(found, key=lambda one: (one.index, one.result), default=None)


def _known(scene: Scene, coming: set[int]) -> Iterator[Newest]:
    """Yield the calls earlier requests held, from the newest on: one look at each is for their places alone.

    ``coming``: what this pass shows. A revised result among it arrives; one that a summary covers stays known.
    """
    state = scene.state
    tags = (state.tags[number - 1] for number in state.todos)
    for index, _, tag in sorted(((scene.index(tag.m), tag.p, tag) for tag in tags), key=itemgetter(0, 1), reverse=True):
        anew = tag.m in coming and tag.m in scene.seen.revised and scene.seen.revised[tag.m][0] <= tag.p
        owner = state.call_of.get(key(tag.m, tag.p), 0)
        if index < 0 or anew or not owner:
            continue
        result, call = _part(scene, tag.m, tag.p), _part(scene, *divmod(owner, PARTS_LIMIT))
        paired = isinstance(result, Result) and isinstance(call, Call) and result.id == call.id
        if paired and not result.error and keeps_list(call.name):
            yield Newest(index, (tag.m, tag.p), divmod(owner, PARTS_LIMIT), fresh=False)


def _arriving(scene: Scene, coming: list[tuple[int, int]]) -> Iterator[Newest]:
    state = scene.state
    made: dict[str, tuple[Part, str]] = {}
    for m, first in coming:
        for p, part in enumerate(scene.message(m).parts):
            if isinstance(part, Call):
                made[part.id] = ((m, p), part.name)
            elif isinstance(part, Result) and p >= first and not part.error and part.id not in state.units:
                call, name = made.get(part.id) or _made_before(scene, part.id)
                if keeps_list(name):
                    yield Newest(scene.index(m), (m, p), call, fresh=True)


def _made_before(scene: Scene, id: str) -> tuple[Part, str]:
    owner = scene.state.calls.get(id, 0)
    m, p = divmod(owner, PARTS_LIMIT)
    part = _part(scene, m, p) if owner else None
    return ((m, p), part.name) if isinstance(part, Call) else ((0, 0), "")


def _part(scene: Scene, m: int, p: int) -> Any:
    """Return a part as the coming request has it, None where its host took it away with this pass."""
    parts = scene.message(m).parts
    return parts[p] if p < len(parts) else None


def _wanted(ask: Ask, newest: Newest | None) -> Arc | None:
    """Return the arc that should stand; None where the call itself does, nothing is left to do, or no tool is there."""
    state = ask.scene.state
    if newest is None or newest.fresh or _sent(ask, newest):
        return None
    call = ask.scene.message(newest.call[0]).parts[newest.call[1]]
    names = msgspec.json.decode(ask.facts.get(TOOLS, "null"))
    missing = names is not None and isinstance(call, Call) and plain(call.name) not in map(plain, names)
    if missing or not isinstance(call, Call) or _reasons_on(ask, state.codec):
        return None
    return arc(call.name, ask.facts.get(newest.call, ""))


def _sent(ask: Ask, newest: Newest) -> bool:
    """Whether the call itself is in the request: with its result, or as a skeleton that keeps its arguments."""
    state, places = ask.scene.state, (newest.result, newest.call)
    if any(ask.scene.index(m) < ask.start for m, _ in places) or ask.absent.intersection(places):
        return False
    tag = state.tags[state.tag_of[key(*newest.result)] - 1]
    return not (tag.status == "dropped" and tag.mode == "full")


def _reasons_on(ask: Ask, codec: str) -> bool:
    """Whether the model wants its reasoning beside each of its calls: a call of ours has none (``hosts.md`` 6.2)."""
    scene, name = ask.scene, ask.model.lower()
    if codec in ("anthropic", items.CODEC) or not any(word in name for word in SURVIVES):
        return False
    path = (scene.message(scene.at(index)) for index in range(ask.start, scene.length()))
    return any(isinstance(part, Thinking) for message in path for part in message.parts)


def _tokens(ask: Ask, newest: Newest, wanted: Arc) -> int:
    """Return about what an arc costs: it says the list twice, as the call did and as its result."""
    call = ask.scene.message(newest.call[0]).parts[newest.call[1]]
    return max(len(wanted.data) // 4, call.tokens)


# ------------------------------------------------------------------ the place


def _stands(ask: Ask, index: int, newest: Newest) -> bool:
    """Whether an arc of ours behind the message at a path index says what is newest, and can stay there."""
    late = newest.index < ask.start or index >= newest.index
    return late and index >= ask.start and any(place == index for place, _ in places(ask, index))


def _place(ask: Ask, first: int, newest: Newest) -> int:
    """Return the path index an arc is put behind, -1 for none: the newest that will do, best behind results.

    So all that stands before it keeps its bytes, and it stays long. Never before the place of the call it says again:
    an older list may stand in between.
    """
    lowest = max(ask.begin, first - 1, newest.index if newest.index >= ask.start else 0)
    found = list(_until_results(ask, lowest))
    return next((place for place, results in reversed(found) if results), found[0][0] if found else -1)


def _until_results(ask: Ask, lowest: int) -> Iterator[tuple[int, bool]]:
    for place, results in places(ask, lowest):
        yield place, results
        if results:
            return

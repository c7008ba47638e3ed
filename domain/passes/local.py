"""Our own count of a request, in local tokens: carried on from the last one, or made anew (``transform.md`` 1.5)."""

from __future__ import annotations

from collections.abc import Container, Mapping

from .. import costs
from ..events import Divergence
from ..identity import Scene
from ..state import Unit, key
from ..transcript import Call, Message, thinks_alone
from . import tagger
from .given import Given


def measure(scene: Scene, given: Given, divergence: Divergence | None, arriving: int) -> int:
    """Return what the request holds before any drop of this pass. ``arriving``: local tokens of its new parts.

    A request that only grows costs what is new; one the host changed costs what stands behind the change.
    """
    state, seen = scene.state, given.seen
    if state.last is None or state.fold is None or state.base != state.last.number or seen.base is not None:
        return recount(scene, given)
    if divergence is None and not seen.side:
        return recount(scene, given) if _comes_back(scene) else state.last.tokens + arriving
    # where the cut goes back, what comes out from under a summary was not in the last request
    plain = state.base_keep == state.base_len == len(state.path) and not scene.void()
    if not plain or (divergence is not None and divergence.cause in ("system", "tools")):
        return recount(scene, given)
    start = max(min(seen.touched, seen.keep), scene.start())
    waiting = dict(scene.unshown())
    old = sum(_shown(scene, m, state.node(m).message, len(state.node(m).message.parts)) for m in state.path[start:])
    new = sum(_new(scene, given, scene.at(index), waiting) for index in range(start, scene.length()))
    for unit in state.units.values():
        old += unit.tokens if state.pos.get(unit.m, -1) >= start else 0
        new += unit.tokens if scene.index(unit.m) >= start else 0
    return max(state.last.tokens - old + new, 0)


def _comes_back(scene: Scene) -> bool:
    """Whether this request holds more than the last one of what earlier ones held: a path the host had left."""
    state, seen = scene.state, scene.seen
    known = (m for m in seen.tail if m <= len(state.nodes))
    return any(state.waits(m) != 0 for m in (*state.path[state.base_len : seen.keep], *known))


def recount(
    scene: Scene,
    given: Given,
    head: int | None = None,
    start: int | None = None,
    units: Mapping[str, Unit] | None = None,
) -> int:
    """Count the request anew.

    ``head``: tokens of m[0], m[1] and guidance where they are not the last fold's; ``start``: the first path index that
    is sent, where the cut moves; ``units``: what stands of ours between the messages, where this pass changes it.
    """
    fold = scene.state.fold
    if head is None:
        head = fold.head_tokens if fold is not None else 0
    total = head + given.system_tokens + given.tools_tokens
    begin = scene.start() if start is None else start
    ours = scene.state.units if units is None else units
    total += sum(unit.tokens for unit in ours.values() if scene.index(unit.m) >= begin)
    waiting = dict(scene.unshown())
    return max(total + sum(_new(scene, given, scene.at(index), waiting) for index in range(begin, scene.length())), 0)


def _new(scene: Scene, given: Given, m: int, waiting: Mapping[int, int]) -> int:
    """Return what message ``m`` holds in this request. ``waiting``: the first part of each that no request held yet.

    Of a revised one only the parts before the change keep edits, and of what comes some is left out at once.
    """
    message = scene.message(m)
    if m not in waiting:
        return _shown(scene, m, message, len(message.parts))
    first = waiting[m]
    unnumbered = tagger.unnumbered(scene, first, message, given.model)
    return _shown(scene, m, message, first, unnumbered, tagger.gone(scene, m, first, message))


def _shown(
    scene: Scene, m: int, message: Message, edited: int, unnumbered: Container[int] = (), gone: Container[int] = ()
) -> int:
    """Return the tokens of a message as sent; parts from ``edited`` on carry no drop.

    ``unnumbered`` and ``gone`` of these are not sent; what left with its arc has its number, and that counts, all the
    same.
    """
    state = scene.state
    if thinks_alone(state.codec, message):
        return 0
    shown = tagger.TAG_TOKENS if state.reduce else 0
    total = 0
    for p, part in enumerate(message.parts):
        if (isinstance(part, Call) and f"{m}:{part.id}" in state.gone) or p in unnumbered:
            continue
        if p >= edited:
            total += shown if tagger.taggable(message, part) else 0
            total += part.tokens if p not in gone else 0
            continue
        number = state.tag_of.get(key(m, p), 0)
        total += shown if number else 0
        total += costs.sent(state, state.tags[number - 1]) if number else costs.left(state, m, p, part.tokens)
    return total

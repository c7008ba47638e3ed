"""What the lanes are asked, and what of their work lands (``transform.md`` 5.2, 5.4; ``design.md`` 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..identity import Scene
from ..state import State, key
from . import permission, protection, schedule, triggers
from .lanes import drops
from .lanes.reasoning import COMPANIONS
from .lanes.shape import Ask, Part, Work
from .permission import Permission
from .situation import Situation


def ask(found: Situation, allowed: Permission, begin: int, facts: Mapping[Part, str], *, headed: bool) -> Ask | None:
    """Return what the lanes are asked; without permission only where drops are held, so that it can be told.

    ``begin``: first path index that is sent; ``headed``: the head is rendered with this pass.
    """
    state, gauge, scene = found.state, found.gauge, found.scene
    queue = tuple(item for item in found.queue if item.index >= begin)
    if found.quiet or not found.manages or not (allowed.granted or queue):
        return None
    wanted = headed or found.asked
    rides = wanted or bool(queue) or (gauge.emergency and _grown(state, gauge))
    fresh = not _settled(state) or (not state.primary and state.tools_order[-1:] > [state.swept])
    routine = rides or (fresh and not (gauge.force and state.drained is not None))
    if not routine and not (gauge.force and gauge.ceiling and state.drained is None):
        return None  # no lane has anything to do: such a pass costs nothing, however many follow each other
    routine = routine and not (_hosts_alone(allowed) and gauge.percent * 2 < gauge.bands.execute)
    first = max(begin, allowed.reach)
    sent = tuple(sorted(_tools(scene, first)))  # what a summary covers is no lane's business, however much it is
    return Ask(
        scene,
        gauge.settings,
        gauge,
        allowed,
        first,
        sent,
        protection.spared(state, found.keep, sent, dict(gauge.settings.spared)),
        drops.recent_tools(scene),
        rides,
        routine=routine,
        queued=queue,
        facts=facts,
        first=found.behind,
        headed=headed,
        model=found.given.model,
        start=begin,
        wanted=wanted,
        least=0 if queue else _least(state, gauge),
    )


def _tools(scene: Scene, first: int) -> Iterator[int]:
    """Yield the numbers of the tools' outputs that earlier requests showed, of the path from an index on."""
    state = scene.state
    known = (m for m in map(scene.at, range(first, scene.length())) if m <= len(state.nodes))
    numbers = (state.tag_of.get(key(m, p), 0) for m in known for p in range(len(state.node(m).message.parts)))
    return (number for number in numbers if number and state.tags[number - 1].kind == "tool")


def lands(asked: Ask, works: tuple[Work, ...]) -> tuple[Work, ...]:
    """Return the work that lands: all of it, or none where the rebuild would not be worth it.

    Where the prefix is lost anyway, or a person asked, even what frees nothing leaves the queue. Reasoning that leaves
    because of the rebuild pays for nothing: without it, it would stay.
    """
    if not asked.permission.granted:
        return ()
    paid = sum(item.net for work in works if work.lane != COMPANIONS for item in work.items)
    return works if asked.wanted or paid > asked.least else ()


def _hosts_alone(allowed: Permission) -> bool:
    """Whether this pass folds only since its host changed what stands before the messages: a clock does each time."""
    return bool(allowed.signals) and set(allowed.signals) <= triggers.REGIONS


def _settled(state: State) -> bool:
    """Whether this pressure episode has had a rebuild."""
    return bool(state.episode) and state.rebuilt >= state.episode


def _grown(state: State, gauge: schedule.Pressure) -> bool:
    """Whether a session at 95% may clean up again: usage rose by what is worth a rebuild since the episode's last."""
    risen = (gauge.tokens - state.paid) * 10_000 >= permission.WORTH * gauge.window.soft
    return gauge.told or not _settled(state) or risen


def _least(state: State, gauge: schedule.Pressure) -> int:
    """Return what a primary's cleanup has to free beyond, where its episode had a rebuild and nothing else pays."""
    if not state.primary or gauge.told or not _settled(state):
        return 0
    return permission.WORTH * gauge.window.soft // 10_000

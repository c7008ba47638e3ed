"""What a pass finds, before it is asked what it may do: how full the window is, what waits, what cannot stay."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from .. import events as ev
from .. import tools
from ..identity import Scene
from ..state import State
from . import diverged, local, protection, schedule, triggers
from .given import Given
from .lanes import drops, mended
from .lanes.shape import Item


class Situation(msgspec.Struct, frozen=True):
    """One pass before its permission.

    ``size``: local tokens of the request as it stands. ``due``: what the schedule says, ``reasons``: why m[0] must be
    rendered again, ``signals``: every cause, these among them, that gives permission by itself. ``fresh``: a summary
    waits that no request shows; ``running``: one is being made. ``torn``: numbers of arcs that have to come back, with
    the path indexes of their calls. ``keep``: protected numbers, ``queue``: how what is marked would leave; both are
    empty on a ``quiet`` pass, which has nothing to decide.
    """

    scene: Scene
    given: Given
    size: int
    divergence: ev.Divergence | None
    gauge: schedule.Pressure
    due: schedule.Schedule
    reasons: tuple[str, ...]
    signals: tuple[str, ...]
    fresh: bool
    running: bool
    torn: Mapping[int, int]
    quiet: bool
    keep: frozenset[int] = frozenset()
    queue: tuple[Item, ...] = ()

    @property
    def state(self) -> State:
        """The session's state before this pass."""
        return self.scene.state

    @property
    def manages(self) -> bool:
        """Whether this pass may take anything out: not beside the head, not with compaction switched off."""
        return self.gauge.settings.compaction and not self.given.seen.side

    @property
    def behind(self) -> int | None:
        """The path index from which the prefix is lost anyway or cannot stay as it is, None for none."""
        places = [*self.torn.values()]
        if self.divergence is not None and not diverged.only_blanks(self.scene):
            places.append(self.divergence.index)
        return min(places, default=None)

    @property
    def news(self) -> bool:
        """Whether there is pressure, and anything came since the last rebuild: else the same would be built again."""
        state, given = self.state, self.given
        if self.due == "defer":
            return False
        if self.gauge.told or given.seen.new or given.events or state.newest > state.swept:
            return True
        return any(after >= state.rebuilt for after in state.queue.values())

    @property
    def certain(self) -> bool:
        """Whether it is known without asking that a summary comes."""
        return self.running or self.fresh or bool(self.state.marked)

    @property
    def asked(self) -> bool:
        """Whether a person or a provider asked for a rebuild: what was or would be refused may not go out as it is."""
        state = self.state
        return bool(self.reasons or state.flush or state.bulky or state.unbound or self.torn)


def look(scene: Scene, given: Given, fresh_tokens: int) -> Situation:
    """Return what this pass finds. ``fresh_tokens``: local tokens of what is new, with what is said to the agent."""
    state, side = scene.state, given.seen.side
    answered = any(message.role == "assistant" for message in given.seen.new)
    now = max(state.seen, given.now)
    divergence = diverged.divergence(scene, given)
    size = local.measure(scene, given, divergence, fresh_tokens)
    moved = divergence is not None and not side
    gauge = schedule.gauge(
        state, given.model, given.context_limit, given.output_limit, given.settings, size, moved=moved
    )
    due = "defer" if side else schedule.schedule(state, gauge, now, answered)
    managed = gauge.settings.compaction
    reasons = () if side else _fold_reasons(scene, given, gauge, now, answered)
    fresh = managed and not side and scene.fresh()
    running = state.running(given.at)
    signals = () if side else _signals(state, reasons, published=fresh and not running and due != "defer")
    torn = mended.torn(scene) if managed and state.gone else {}
    quiet = due == "defer" and not signals and not gauge.presses and divergence is None and not torn
    found = Situation(scene, given, size, divergence, gauge, due, reasons, signals, fresh, running, torn, quiet)
    if quiet or not found.manages:
        return found
    floor = state.adopted.floor if state.adopted is not None else protection.floor(gauge.settings, gauge.window)
    keep = protection.protected(state, floor, emergency=gauge.emergency, here=tools.here(scene))
    queue = drops.queued(scene, frozenset() if state.flush else keep) if state.queue else ()
    return msgspec.structs.replace(found, keep=keep, queue=queue)


def _fold_reasons(scene: Scene, given: Given, gauge: schedule.Pressure, now: int, answered: bool) -> tuple[str, ...]:
    found = triggers.fold_reasons(
        scene,
        model=given.model,
        system_hash=given.system_hash,
        tools_names=given.tools_names,
        managed=gauge.settings.compaction,
        idle=schedule.idle(scene.state, gauge.settings.ttl, now, answered),
    )
    if gauge.settings.compaction or found == ("first_render",):
        return found
    # switched off, nothing of ours moves the prefix; but a head that tells of a path the host left cannot stay
    return ("cut_void",) if "cut_void" in found else ()


def _signals(state: State, reasons: tuple[str, ...], *, published: bool) -> tuple[str, ...]:
    """Return the causes, beside pressure, that give permission by themselves (T53: all that were true are named)."""
    found = list(reasons)
    if state.flush:
        found.append("flush")
    if state.lost and "cache_loss" not in found:
        found.append("cache_loss")
    if state.reopened:
        found.append("open_rebuild")
    if state.unbound:
        found.append("thinking_recovery")
    if state.bulky:
        found.append("picture_recovery")
    if published:
        found.append("published")
    return tuple(found)

"""Whether a summary is to be made now, decided from figures alone (``history.md`` 4.2, 4.5).

The engine asks in two steps, so that a quiet pass reads no history: ``gate`` needs counters only; ``decide`` needs the
boundary and what a scan of the chunk text found. Percentages are in 1/100 of a per cent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from .boundary import Boundary
from .budgets import HIGHEST, Figures

MARGIN = 200
"""So much below the execute threshold pressure begins to count."""
MEANINGFUL_TOKENS, MEANINGFUL_MESSAGES = 6_000, 12
MIN_CLUSTERS = 3

Fired: TypeAlias = Literal["force_band", "commit_clusters", "tail_size", "projected_headroom"]
Quiet: TypeAlias = Literal[
    "in_progress", "cheap_gate", "nothing_new", "drops_suffice", "no_force_head", "below_threshold", "no_head",
    "too_small",
]  # fmt: skip


class Facts(msgspec.Struct, frozen=True):
    """What the trigger goes by.

    ``running``: a run is on, or its result waits. ``usage``: of the usable window, below 0 = unknown. ``bound``: an
    upper bound of the uncovered tokens, None where a part of it is not known (then the gate is left open).
    ``projected``: usage once the queued drops have landed, None where nothing is droppable (``project``). ``waiting``:
    raw messages at or after the offset. ``clusters``: commit clusters that fire, 0 = switched off.
    """

    running: bool
    usage: int
    threshold: int
    force: int
    bound: int | None
    projected: int | None
    waiting: int
    clusters: int = MIN_CLUSTERS


class Scan(msgspec.Struct, frozen=True):
    """What reading ``[offset, tail_start)`` as chunk text under the scan budget found.

    ``more``: it stopped before the end. ``messages``: raw messages it covered.
    """

    tokens: int
    messages: int
    clusters: int
    more: bool


class Trigger(msgspec.Struct, frozen=True):
    """The decision. ``boundary`` is what the run is to read (only where it fires).

    ``floor_mark``: pressure asks for a summary, drops would not do, and only the newest prompt is in the way. An
    execute pass then marks the next look to resolve past it, once (4.5).
    """

    fire: bool
    reason: Fired | Quiet
    boundary: Boundary | None = None
    floor_mark: bool = False


def project(usage: int, active: int, droppable: int) -> int | None:
    """Return the usage left when ``droppable`` of ``active`` bytes are gone, rounded up; None where none is known."""
    if usage < 0 or active <= 0 or droppable <= 0:
        return None
    return -(-usage * max(active - droppable, 0) // active)


def gate(facts: Facts, figures: Figures) -> Trigger | None:
    """Return a decision that needs no boundary (steps 1, 2 and 4), or None: ask ``decide``."""
    if facts.running:
        return Trigger(False, "in_progress")
    if facts.usage < facts.threshold - MARGIN and facts.bound is not None and facts.bound < figures.trigger:
        return Trigger(False, "cheap_gate")
    if facts.waiting <= 0:
        return Trigger(False, "nothing_new")
    return None


def decide(
    facts: Facts, figures: Figures, boundary: Boundary, scan: Scan, at_scale: Callable[[int], Boundary]
) -> Trigger:
    """Return the decision (steps 1 to 12). ``boundary`` was resolved with ``figures``.

    ``at_scale(50 or 25)`` resolves again with a smaller tail; it is called in the force band only, where ``boundary``
    does not do.
    """
    early = gate(facts, figures)
    if early is not None:
        return early
    enough = facts.projected is not None and 4 * facts.projected <= 3 * facts.threshold
    if facts.usage >= facts.force:
        return Trigger(False, "drops_suffice") if enough else _forced(facts, boundary, at_scale)
    if boundary.runnable:
        if 0 < facts.clusters <= scan.clusters and scan.tokens >= figures.trigger:
            return Trigger(True, "commit_clusters", boundary)
        if scan.tokens >= 3 * figures.trigger or (scan.more and scan.tokens > 0):
            return Trigger(True, "tail_size", boundary)
    if facts.usage < max(0, facts.threshold - MARGIN):
        return Trigger(False, "below_threshold")
    if enough:
        return Trigger(False, "drops_suffice")
    if not boundary.runnable:
        return Trigger(False, "no_head", floor_mark=boundary.blocked)
    if not _meaningful(boundary, scan):
        return Trigger(False, "too_small")
    return Trigger(True, "projected_headroom", boundary)


def _forced(facts: Facts, boundary: Boundary, at_scale: Callable[[int], Boundary]) -> Trigger:
    if not boundary.runnable:
        boundary = at_scale(25 if facts.usage >= HIGHEST else 50)
    return Trigger(True, "force_band", boundary) if boundary.runnable else Trigger(False, "no_force_head")


def _meaningful(boundary: Boundary, scan: Scan) -> bool:
    return (
        scan.more
        or boundary.eligible_tokens >= MEANINGFUL_TOKENS
        or scan.tokens >= MEANINGFUL_TOKENS
        or scan.messages >= MEANINGFUL_MESSAGES
    )

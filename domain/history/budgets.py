"""Sizes the historian works with, all derived from window, threshold and usage, in integers (``history.md`` 4.1).

Percentages are in 1/100 of a per cent, as in ``domain.window``; a usage below 0 is unknown and counts as 0 where a size
is derived from it. "Usable" is the context limit times the execute threshold.
"""

from __future__ import annotations

import msgspec

ASSUMED_LIMIT = 128_000
ASSUMED_THRESHOLD = 6_500
ASSUMED_HISTORY = 60_000
"""The history budget where no limit is known (2.4)."""
HIGH, HIGHEST = 8_000, 9_500
"""Fixed steps of the per-run cap; they do not follow the force band."""
WHOLE = 100
"""The scale of an ordinary resolution, in per cent; emergency re-resolutions use 50 or 25."""


class Figures(msgspec.Struct, frozen=True):
    """The sizes of one resolution, in tokens.

    ``trigger``: unit of the size triggers; ``scan``: how much chunk text the trigger reads; ``tail``: N, the target
    size of the raw tail, and ``scaled`` the same times ``scale`` per cent; ``cap``: most one run may read;
    ``force_head``: the head a forced run asks for (it adds nothing to "runnable", HIST-14). ``forced``: usage is in
    the force band, or a scale is in use, so that the newest prompt is no fence any more.
    """

    usable: int
    trigger: int
    scan: int
    reserve: int
    headroom: int
    floor: int
    ceiling: int
    tail: int
    scaled: int
    cap: int
    force_head: int
    scale: int
    forced: bool


def half_up(numerator: int, denominator: int) -> int:
    """Return the quotient of non-negative integers, rounded half up."""
    return (2 * numerator + denominator) // (2 * denominator)


def usable(limit: int, threshold: int) -> int:
    """Return the usable tokens, at least 1. A limit or threshold that is not positive counts as 128,000 and 65%."""
    limit, threshold = limit if limit > 0 else ASSUMED_LIMIT, threshold if threshold > 0 else ASSUMED_THRESHOLD
    return max(1, half_up(limit * threshold, 10_000))


def trigger(limit: int, threshold: int) -> int:
    """Return the trigger budget: 5% of the usable window in 5,000..50,000; 5,000 where the limit is not known."""
    threshold = threshold if threshold > 0 else ASSUMED_THRESHOLD
    return min(50_000, max(5_000, half_up(limit * threshold * 5, 1_000_000))) if limit > 0 else 5_000


def chunk(limit: int) -> int:
    """Return how many tokens of chunk text a summariser with context ``limit`` reads: a quarter, in 8,000..50,000."""
    return min(50_000, max(8_000, half_up(limit, 4))) if limit > 0 else 8_000


def history(limit: int, threshold: int, share: int = 1_500) -> int:
    """Return the tokens old history may take in m[0] (2.4). ``share`` of the usable window, held to 5%..50%."""
    if limit <= 0 or threshold <= 0:
        return ASSUMED_HISTORY
    return limit * threshold * min(5_000, max(500, share)) // 100_000_000


def force_band(threshold: int) -> int:
    """Return where the force band begins: ``max(85%, min(threshold, 90%) + 2%)`` (section 1)."""
    return max(8_500, min(threshold if threshold > 0 else ASSUMED_THRESHOLD, 9_000) + 200)


def figures(limit: int, threshold: int, usage: int, scale: int = WHOLE) -> Figures:
    """Return all sizes. ``limit`` in tokens (<= 0: unknown), ``threshold`` and ``usage`` in 1/100 of a per cent.

    ``scale``: 100, or 50 or 25 in an emergency re-resolution.
    """
    space, unit = usable(limit, threshold), trigger(limit, threshold)
    used = min(10_000, max(0, usage))
    reserve = max(1_000, half_up(2 * space, 100))
    headroom = min(unit + reserve, space // 2)
    floor = min(12_000, max(2_000, half_up(8 * space, 100)))
    ceiling = max(1, min(96_000, 4 * space // 10, space - headroom))
    raw = half_up(3 * space * (10_000 - used), 100_000)
    tail = min(ceiling, max(min(floor, ceiling), raw))
    scaled = max(1, tail * scale // WHOLE)
    return Figures(
        usable=space,
        trigger=unit,
        scan=max(6_000, 3 * unit),
        reserve=reserve,
        headroom=headroom,
        floor=floor,
        ceiling=ceiling,
        tail=tail,
        scaled=scaled,
        cap=_cap(space, tail, usage),
        force_head=min(1_000, max(1, scaled // 8)),
        scale=scale,
        forced=scale != WHOLE or usage >= force_band(threshold),
    )


def _cap(space: int, tail: int, usage: int) -> int:
    if usage < HIGH:
        return min(250_000, max(2 * tail, min(half_up(25 * space, 100), 100_000)))
    if usage < HIGHEST:
        return min(500_000, max(3 * tail, min(half_up(35 * space, 100), 150_000)))
    return min(750_000, max(4 * tail, min(half_up(50 * space, 100), 250_000)))

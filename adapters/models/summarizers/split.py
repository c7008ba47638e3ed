"""Where a stretch falls into compartments: at what a person asks, never inside a call and its result (``history.md``
5.5).
"""

from __future__ import annotations

from collections.abc import Sequence

from .evidence import Seen

LEAST = 2_500
"""A compartment has at least this many tokens of raw stretch, and at least a twelfth of the stretch."""
MOST = 12


def cuts(seen: Sequence[Seen], arcs: Sequence[tuple[int, int]], tokens: int) -> list[tuple[int, int]]:
    """Return half-open index ranges that cover ``seen``, one a compartment. ``tokens``: of the whole stretch."""
    total = sum(one.size for one in seen)
    if not seen or not total:
        return [(0, len(seen))]
    crossed = _crossed(len(seen), arcs)
    # in characters, so that nothing is tokenised twice
    least = max(LEAST * total // max(tokens, 1), -(-total // MOST))
    out: list[tuple[int, int]] = []
    start = size = 0
    for index, one in enumerate(seen):
        fresh = index > 0 and one.position > seen[index - 1].position
        if fresh and one.asks and not crossed[index] and size >= least:
            out.append((start, index))
            start, size = index, 0
        size += one.size
    if out and size < least:
        start, _ = out.pop()
    out.append((start, len(seen)))
    return out


def _crossed(count: int, arcs: Sequence[tuple[int, int]]) -> list[bool]:
    """Return for each index whether a cut before it would part a call from its result."""
    steps = [0] * (count + 1)
    for call, answer in arcs:
        steps[call + 1] += 1
        steps[min(answer + 1, count)] -= 1
    out: list[bool] = []
    open_arcs = 0
    for index in range(count):
        open_arcs += steps[index]
        out.append(open_arcs > 0)
    return out

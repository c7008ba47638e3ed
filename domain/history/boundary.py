"""Where the raw tail begins and how far one run may read; tool arcs are never split (``history.md`` 5.1, 4.5).

Positions are 1-based in the head's path. Work is proportional to the rows from the offset on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Literal, TypeAlias

import msgspec

from ..errors import OptionError
from .budgets import Figures, half_up

HUGE = 64_000
"""A message above ``max(2 N, this)`` tokens is not held in the tail for its own size alone."""
SNAP = 48_000
CRUMBS = 256
"""A head of at most so many tokens is not worth a run."""

Reason: TypeAlias = Literal[
    "size-walk", "whole-session-smaller-than-tail", "huge-message-exception", "semantic-snap", "empty-session"
]


class Row(msgspec.Struct, frozen=True, gc=False):
    """One message: its true-raw tokens, whether it is a meaningful user message, whether it carries a tool part.

    ``calls`` and ``results``: the ids of the tool calls and tool results in it. ``tied``: it may not be parted from the
    message before it.
    """

    tokens: int
    user_prompt: bool = False
    tools: bool = False
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    tied: bool = False


class Boundary(msgspec.Struct, frozen=True):
    """One resolution. ``[offset, tail_start)`` is the eligible head, ``[offset, eligible_end)`` what one run may read.

    ``reason``: which step set the tail's start. ``oversize``: what one run must read whole is over its cap.
    ``head_tokens``, ``eligible_tokens``: true-raw tokens of the two ranges. ``blocked``: there would be something to
    read, were it not for the newest prompt (4.5). ``count``: the last position. ``scale`` in per cent.
    """

    offset: int
    tail_start: int
    eligible_end: int
    reason: Reason
    oversize: bool
    head_tokens: int
    eligible_tokens: int
    blocked: bool
    count: int
    scale: int

    @property
    def runnable(self) -> bool:
        """Whether a run on it would have something to read (4.2)."""
        return self.offset < self.tail_start and self.eligible_end > self.offset


class Arcs(msgspec.Struct, frozen=True):
    """Tool arcs of a range: ``spans`` of completed ones, overlapping ones joined, and calls without a result.

    Spans are disjoint, ascending, inclusive, and cover at least two positions. ``open`` is ascending.
    """

    spans: tuple[tuple[int, int], ...]
    open: tuple[int, ...]

    def crossing(self, b: int) -> tuple[int, int] | None:
        """Return the span a boundary before position ``b`` would split (``first < b <= last``)."""
        index = bisect_right(self.spans, (b, 0)) - 1
        return self.spans[index] if index >= 0 and self.spans[index][0] < b <= self.spans[index][1] else None

    def fence(self, b: int, floor: int) -> int:
        """Return ``b``, or where it would split a span the span's start; its end + 1 if it starts before ``floor``."""
        span = self.crossing(b)
        if span is None:
            return b
        return span[0] if span[0] >= floor else span[1] + 1


def find_arcs(
    calls_and_results: Iterable[tuple[Sequence[str], Sequence[str]]], first: int, tied: Iterable[int] = ()
) -> Arcs:
    """Return the arcs of rows from position ``first`` on, each given as (call ids, result ids).

    ``tied``: positions that hang on the one before them, as if an arc held both. A result whose call is not among them
    answers a call before ``first``: its arc starts at ``first - 1``. A reused id is a new arc; a second result
    lengthens its arc.
    """
    arcs: list[list[int]] = []
    newest: dict[str, list[int]] = {}
    for position, (calls, results) in enumerate(calls_and_results, first):
        for call in calls:
            newest[call] = [position, 0]
            arcs.append(newest[call])
        for result in results:
            if result not in newest:
                newest[result] = [first - 1, 0]
                arcs.append(newest[result])
            newest[result][1] = position
    arcs += [[place - 1, place] for place in tied]
    spans: list[tuple[int, int]] = []
    for start, end in sorted((start, end) for start, end in arcs if end):
        if spans and start <= spans[-1][1]:  # a shared row joins as well: a fence behind one would split the other
            spans[-1] = (spans[-1][0], max(spans[-1][1], end))
        else:
            spans.append((start, end))
    open_calls = sorted({start for start, end in arcs if not end})
    return Arcs(tuple(span for span in spans if span[0] < span[1]), tuple(open_calls))


class _Head(msgspec.Struct):
    """What the steps share: rows from the offset on, running token totals, arcs, sizes."""

    rows: Sequence[Row]
    offset: int
    end: int
    totals: list[int]
    arcs: Arcs
    recent: int
    figures: Figures

    def row(self, position: int) -> Row:
        return self.rows[position - self.offset]

    def tokens(self, start: int, end: int) -> int:
        return self.totals[end - self.offset] - self.totals[start - self.offset]

    def fence(self, b: int) -> int:
        """Step 3: completed arcs, the first recent open call, completed arcs once more."""
        b = self.arcs.fence(b, self.offset)
        if self.recent:
            b = self.arcs.fence(self.recent, self.offset)
        return min(b, self.end)


def resolve(
    rows: Sequence[Row], offset: int, figures: Figures, *, first: int = 1, floor_mark: bool = False
) -> Boundary:
    """Return the boundary for the uncovered rows.

    ``rows[0]`` stands at position ``first``; rows before ``offset`` (the first uncovered position, last compartment's
    end + 1) are not looked at. ``floor_mark``: this pass may summarise past the newest prompt (4.5). Raises
    ``OptionError`` where the offset lies before the rows.
    """
    if offset < max(1, first):
        raise OptionError("the first uncovered position lies before the rows handed over", value=offset, where="offset")
    rows = rows[offset - first :] if offset > first else rows
    if not rows:
        return Boundary(offset, offset, offset, "empty-session", False, 0, 0, False, offset - 1, figures.scale)
    totals = [0, *accumulate(row.tokens for row in rows)]
    end = offset + len(rows)
    tied = [place for place, row in enumerate(rows, offset) if row.tied]
    arcs = find_arcs(((row.calls, row.results) for row in rows), offset, tied)
    walk, reason = _size_walk(totals, offset, figures.scaled)
    recent = next((call for call in arcs.open if call >= walk), 0)
    head = _Head(rows, offset, end, totals, arcs, recent, figures)
    b = walk
    if b < end - 1 and head.row(b).tokens > _huge(figures):
        b, reason = b + 1, "huge-message-exception"
    b = head.fence(b)
    snapped = _snap(head, b)
    if snapped < b:
        b, reason = head.fence(snapped), "semantic-snap"
    free = _settle(head, max(b, offset))
    lifted = figures.forced or floor_mark
    tail_start = free if lifted else _settle(head, _before_prompt(head, free))
    eligible_end = _cap(head, tail_start)
    readable = eligible_end > offset
    return Boundary(
        offset=offset,
        tail_start=tail_start,
        eligible_end=eligible_end,
        reason=reason,
        oversize=head.tokens(offset, eligible_end) > figures.cap,
        head_tokens=head.tokens(offset, tail_start),
        eligible_tokens=head.tokens(offset, eligible_end),
        blocked=not readable and tail_start < free and _cap(head, free) > offset,
        count=end - 1,
        scale=figures.scale,
    )


def _huge(figures: Figures) -> int:
    return max(2 * figures.scaled, HUGE)


def _size_walk(totals: list[int], offset: int, target: int) -> tuple[int, Reason]:
    """Step 1: the largest position whose suffix holds ``target`` tokens, the first one where all hold less."""
    whole = totals[-1]
    if whole < target:
        return offset, "whole-session-smaller-than-tail"
    # totals ascend: the last index at which as much as whole - target lies before it
    return offset + min(bisect_right(totals, whole - target) - 1, len(totals) - 2), "size-walk"


def _snap(head: _Head, b: int) -> int:
    """Step 4: the newest prompt or tool row at or before ``b``, unless that adds too much or is huge itself."""
    figures = head.figures
    allowed = min(half_up(3 * figures.scaled, 2), SNAP)
    for position in range(min(b, head.end - 1), head.offset - 1, -1):
        row = head.row(position)
        if position < b and head.tokens(position, b) > allowed:
            return b
        if row.user_prompt or row.tools:
            return b if row.user_prompt and row.tokens > _huge(figures) else position
    return b


def _before_prompt(head: _Head, b: int) -> int:
    """Step 7: not past the newest meaningful user message; then fenced, and never forward over that message."""
    newest = next((p for p in range(head.end - 1, head.offset - 1, -1) if head.row(p).user_prompt), b)
    if newest >= b:
        return b
    fenced = head.arcs.fence(newest, head.offset)
    return fenced if fenced <= newest else head.offset


def _settle(head: _Head, b: int) -> int:
    """Steps 8 and 9: nothing is eligible where hardly anything would be; inside the rows."""
    b = min(max(b, head.offset), head.end)
    return b if head.tokens(head.offset, b) > CRUMBS else head.offset


def _cap(head: _Head, tail_start: int) -> int:
    """Step 10: the end of what one run reads: at most the cap, at least one message or one whole group of arcs."""
    offset, arcs = head.offset, head.arcs
    if tail_start <= offset:
        return offset
    within = bisect_right(head.totals, head.figures.cap) - 1
    end = min(max(offset + within, offset + 1), tail_start)
    end = arcs.fence(end, offset)
    if end <= offset:
        leading = arcs.crossing(offset + 1)
        end = leading[1] + 1 if leading else offset
    if offset <= head.recent < end:
        end = arcs.fence(head.recent, offset)
    return end if offset < end <= tail_start else offset

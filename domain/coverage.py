"""Which summaries stand for a path: every message is in exactly one of a compartment or the raw tail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from . import events as ev
from .state import State

Spans: TypeAlias = Mapping[int, Sequence[tuple[int, int]]]


def covering(
    compartments: Sequence[ev.Compartment], spans: Spans, path: Sequence[int], index: Callable[[int], int]
) -> Iterator[ev.Compartment]:
    """Yield the compartments that cover ``path`` from its first message on without a gap, in path order.

    ``index(m)``: a message's place on the path, -1 off it. ``spans``: what each compartment tells of; it covers no
    stretch that holds anything else, put in later. What lies behind a gap is raw history again: every message is in
    exactly one of a compartment or the raw tail (``history.md`` 10, 4).
    """
    at: dict[int, list[ev.Compartment]] = {}
    for one in compartments:
        at.setdefault(one.first, []).append(one)
    place = 0
    while place < len(path):
        fits = (one for one in reversed(at.get(path[place], ())) if _tells(one, spans, path, place, index(one.last)))
        newest = next(fits, None)
        if newest is None:
            return
        yield newest
        place = index(newest.last) + 1


def _tells(one: ev.Compartment, spans: Spans, path: Sequence[int], place: int, end: int) -> bool:
    """Whether all of ``path[place..end]`` is what the compartment was made of (some of it may have been taken out)."""
    told = spans.get(one.seq, ())
    stretch = path[place : end + 1]
    if len(told) == 1 and stretch == list(range(told[0][0], told[0][1] + 1)):  # as a rule; hundreds are asked at a fold
        return bool(stretch)
    members = {m for first, last in told for m in range(first, last + 1)}
    return bool(stretch) and members.issuperset(stretch)


def history(state: State) -> list[ev.Compartment]:
    """Return the compartments that cover the head's path from its beginning."""
    return list(_along(state))


def fresh(state: State, along: Iterable[ev.Compartment] | None = None) -> bool:
    """Whether one of the summaries along a path is in no request yet. None: along the head's."""
    if not state.compartments or state.compartments[-1].seq <= state.rendered:
        return False
    return any(one.seq > state.rendered for one in (_along(state) if along is None else along))


def _along(state: State) -> Iterator[ev.Compartment]:
    return covering(state.compartments, state.spans, state.path, lambda m: state.pos.get(m, -1))

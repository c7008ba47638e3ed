"""Which summaries stand for a path: every message is in exactly one of a compartment or the raw tail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from . import events as ev
from .state import State

Spans: TypeAlias = Mapping[int, Sequence[tuple[int, int]]]


def covering(
    compartments: Sequence[ev.Compartment], spans: Spans, path: Sequence[int], index: Callable[[int], int]
) -> list[ev.Compartment]:
    """Return the compartments that cover ``path`` from its first message on without a gap, in path order.

    ``index(m)``: a message's place on the path, -1 off it. ``spans``: what each compartment tells of; it covers no
    stretch that holds anything else, put in later. What lies behind a gap is raw history again: every message is in
    exactly one of a compartment or the raw tail (``history.md`` 10, 4).
    """
    at: dict[int, list[ev.Compartment]] = {}
    for one in compartments:
        at.setdefault(one.first, []).append(one)
    found: list[ev.Compartment] = []
    place = 0
    while place < len(path):
        fits = (one for one in reversed(at.get(path[place], ())) if _tells(one, spans, path, place, index(one.last)))
        newest = next(fits, None)
        if newest is None:
            break
        found.append(newest)
        place = index(newest.last) + 1
    return found


def _tells(one: ev.Compartment, spans: Spans, path: Sequence[int], place: int, end: int) -> bool:
    """Whether all of ``path[place..end]`` is what the compartment was made of (some of it may have been taken out)."""
    members = [m for first, last in spans.get(one.seq, ()) for m in range(first, last + 1)]
    stretch = list(path[place : end + 1])
    return bool(stretch) and (stretch == members or set(stretch) <= set(members))


def history(state: State) -> list[ev.Compartment]:
    """Return the compartments that cover the head's path from its beginning."""
    return covering(state.compartments, state.spans, state.path, lambda m: state.pos.get(m, -1))


def fresh(state: State) -> bool:
    """Whether a summary no request shows yet covers a stretch of the head's path."""
    waits = bool(state.compartments) and state.compartments[-1].seq > state.rendered
    return waits and any(one.seq > state.rendered for one in history(state))

"""The tools a request can show: those on the head's path, kept by number, the newest last (``transform.md`` 3.3).

What a side request or a path the host left called is no tool of this conversation: it protects nothing, keeps nothing
as an example, and is no news (PROP-7). Kept up to date where the path moves, at the cost of what moved.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from .arcs import call_part, is_reduce
from .hygiene import MOVED
from .identity import Scene
from .state import State, key


def numbered(state: State, m: int, p: int, number: int) -> None:
    """Take in that part ``p`` of message ``m`` has a number now."""
    if m not in state.pos:
        return
    state.newest = max(state.newest, number)
    if state.tags[number - 1].kind != "tool":
        return
    _insert(state.tools_order, number)
    if _reduces(state, number):
        _insert(state.reduces, number)


def came(state: State, m: int) -> None:
    """Take in that message ``m`` is on the path now, with the numbers it has."""
    for p in range(len(state.node(m).message.parts)):
        number = state.tag_of.get(key(m, p), 0)
        if number:
            numbered(state, m, p, number)


def left(state: State, gone: Iterable[int]) -> None:
    """Take in that the messages ``gone`` are no longer on the path."""
    numbers = {
        number
        for m in gone
        for p in range(len(state.node(m).message.parts))
        if (number := state.tag_of.get(key(m, p), 0)) and state.tags[number - 1].kind == "tool"
    }
    forget(state, numbers)


def forget(state: State, numbers: set[int]) -> None:
    """Take in that nothing of the path has these numbers any more."""
    for number in numbers:
        for order in (state.tools_order, state.reduces):
            place = bisect_left(order, number)
            if place < len(order) and order[place] == number:
                del order[place]
                state.known = MOVED


def _insert(order: list[int], number: int) -> None:
    place = bisect_left(order, number)
    if place == len(order) or order[place] != number:
        order.insert(place, number)


def here(scene: Scene) -> tuple[list[int], list[int]]:
    """Return the tools and the calls of ``ctx_reduce`` of the coming request's path; the state still has the last's."""
    state, seen = scene.state, scene.seen
    back = [m for m in seen.tail if m <= len(state.nodes) and m not in state.pos]
    if seen.keep == len(state.path) and not back:
        return state.tools_order, state.reduces
    found = {number for number in state.tools_order if scene.index(state.tags[number - 1].m) >= 0}
    for m in back:
        numbers = (state.tag_of.get(key(m, p), 0) for p in range(len(state.node(m).message.parts)))
        found |= {number for number in numbers if number and state.tags[number - 1].kind == "tool"}
    order = sorted(found)
    return order, [number for number in order if _reduces(state, number)]


def _reduces(state: State, number: int) -> bool:
    call = call_part(state, state.tags[number - 1].m, state.tags[number - 1].p)
    return call is not None and is_reduce(call.name)

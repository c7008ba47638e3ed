"""Paths through a session's tree: the head's, those of requests beside it, and what a request held."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from . import events as ev
from .state import State


def road(state: State, path: Sequence[int]) -> bytes:
    """Return a name for a path as its messages are now: one node may be reached by several, where messages were put in
    or taken out, and what a host has changed since was in none of the requests before.
    """
    revisions = [(m, state.node(m).revision) for m in path]
    return hashlib.sha256(msgspec.msgpack.encode(revisions)).digest()[:8]


def request_of(state: State, path: Sequence[int]) -> int:
    """Return the pass whose request ended with ``path``, beside the head or before it left; 0 if none is known."""
    number = state.tips.get(path[-1], 0)
    return number if number and state.roads.get(number) == road(state, path) else 0


def path_of(state: State, event: ev.Pass | ev.LastGoodReplayed) -> list[int]:
    """Return the ordinals of the request of a pass that ``state`` has just taken in."""
    if isinstance(event, ev.PassDeferred) and event.side is not None:
        ordinals = (m for first, last in event.side.then for m in range(first, last + 1))
        begin = 0 if event.side.whole else state.start()
        return [*state.path[begin : event.side.keep], *ordinals]
    return state.path[state.start() :]


def rest_of(state: State, index: int) -> list[int] | None:
    """Return what the last request's path holds from ``index`` on, None where that is not known."""
    if state.base_rest is None:
        return None
    return [*state.path[index : state.base_keep], *state.base_rest]


def shown_of(state: State, rest: Sequence[int]) -> Sequence[int]:
    """Return what of the end of the last request's path that request held: all behind the cut."""
    return rest[rest.index(state.cut) + 1 :] if state.cut in rest else rest


def children(state: State) -> dict[int, list[int]]:
    """Return the nodes that ever stood behind each node (0: the root). Costs the whole tree: for branches only."""
    found: dict[int, list[int]] = {}
    for m, node in enumerate(state.nodes, 1):
        found.setdefault(node.parent, []).append(m)
    for parent, others in state.fostered.items():
        found.setdefault(parent, []).extend(others)
    return found

"""Where the host itself left what the base request held (law 3)."""

from __future__ import annotations

from .. import events as ev
from ..identity import Scene
from ..paths import rest_of, shown_of
from ..transcript import Text
from .given import Given


def divergence(scene: Scene, given: Given) -> ev.Divergence | None:
    """Say where the host left what the base request held, None where the request only grows."""
    state, seen = scene.state, given.seen
    if not state.base:
        return None
    system, tools, _ = scene.base()
    if given.system != system:
        return ev.Divergence(0, 0, 0, "system")
    if given.tools != tools:
        return ev.Divergence(0, 0, 0, "tools")
    if scene.whole():
        return ev.Divergence(0, 0, 0, "branch")
    touched, first = _first_change(scene)
    if seen.base is not None:
        keep, part, cause, length = seen.base[1], 0, "", seen.base[1]
    elif touched < state.base_keep:
        keep, part, cause, length = touched, first, seen.cause, state.base_len
    else:
        keep, part, cause, length = state.base_keep, state.base_part, state.base_cause, state.base_len
    stands, changed = (keep, 0) if seen.base is not None else _stands(scene, keep)
    if stands > keep:
        keep, part = stands, changed
    if keep >= length:
        return None
    return ev.Divergence(keep, scene.at(keep), part, cause or "removed")


def _stands(scene: Scene, keep: int) -> tuple[int, int]:
    """Return how far the base request's path stands: the host may have taken back what it did while it was refused.

    And the part from which the message there is another one.
    """
    state = scene.state
    rest = rest_of(state, keep) or ()
    shown = {*shown_of(state, rest)}
    changed = {m: first for m, (first, _) in scene.seen.revised.items() if m in shown}
    if state.base_torn is not None:
        m, first = state.base_torn
        changed[m] = min(first, changed.get(m, first))
    for m in rest:
        if keep >= scene.length() or scene.at(keep) != m:
            break
        if m in changed:
            return keep, changed[m]
        keep += 1
    return keep, 0


BLANKS_UNSENT = ("anthropic", "pi", "opencode")
"""Wires on which no provider ever sees a blank text: it is left out here, or by the host behind us (``hosts.md`` 6)."""


def only_blanks(scene: Scene) -> bool:
    """Whether the host's only change is of blank texts no provider sees: the prefix is still whole there (T4)."""
    state, seen = scene.state, scene.seen
    if state.codec not in BLANKS_UNSENT or seen.cause != "revised" or state.base_keep < state.base_len:
        return False
    for m, (first, message) in seen.revised.items():
        changed = (*state.node(m).message.parts[first:], *message.parts[first:])
        if not first or not all(isinstance(part, Text) and part.blank for part in changed):
            return False
    return True


def _first_change(scene: Scene) -> tuple[int, int]:
    """Return the path index and part from which these messages are not as they were, where the request shows them."""
    seen = scene.seen
    if seen.cause != "revised":
        return seen.touched, seen.part
    places, begin = [(scene.index(m), first) for m, (first, _) in seen.revised.items()], scene.start()
    return min((place for place in places if place[0] >= begin), default=(scene.length(), 0))

"""What no drop may touch: one definition for every lane (``transform.md`` 3.3, newest form)."""

from __future__ import annotations

from collections.abc import Sequence

from ..arcs import call_part
from ..hygiene import MIN_TOOLS, calibrated
from ..names import ANSWERS, EXEMPLARS, kind
from ..policy import Settings
from ..state import State
from ..window import Window


def floor(settings: Settings, window: Window) -> int:
    """Return the token mass of newest tool output to protect: ``clamp(5% soft, min(16k, 8% soft), 64k)``."""
    if settings.protected is not None:
        return settings.protected
    soft = window.soft
    five, eight = (soft * 5 + 50) // 100, (soft * 8 + 50) // 100
    return min(max(five, min(16_000, eight)), 64_000)


def protected(
    state: State, mass: int, *, emergency: bool, here: tuple[Sequence[int], Sequence[int]] | None = None
) -> frozenset[int]:
    """Return the protected tag numbers: tools newest first until ``mass`` tokens, at least three, and the exemplars.

    ``here``: the tools and calls of ``ctx_reduce`` of a path that is not the state's yet. Costs what the window holds,
    not what the session holds. In an emergency only the exemplars stay.
    """
    order, reduces = (state.tools_order, state.reduces) if here is None else here
    keep: set[int] = set(reduces[-EXEMPLARS:])
    if emergency:
        return frozenset(keep)
    total = 0
    for count, number in enumerate(reversed(order)):
        if count >= MIN_TOOLS and calibrated(state, total) >= mass:
            break
        keep.add(number)
        total += state.tags[number - 1].tokens
    return frozenset(keep)


def spared(state: State, kept: frozenset[int], sent: Sequence[int], wanted: dict[str, int]) -> frozenset[int]:
    """Return the tags no lane takes out by itself: the protected ones ``kept``, and the newest of ``sent`` by name.

    ``wanted`` maps a tool's name to how many of its newest results stay; answers of a person all stay.
    """
    left = dict(wanted)
    found = set(kept)
    for number in reversed(sent):
        call = call_part(state, state.tags[number - 1].m, state.tags[number - 1].p)
        name = kind(call.name) if call is not None else ""
        if name in ANSWERS:
            found.add(number)
        elif left.get(name, 0) > 0:
            left[name] -= 1
            found.add(number)
    return frozenset(found)

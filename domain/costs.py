"""What a part that is sent still costs, in local tokens: one answer for every count of it (WINDOW-15)."""

from __future__ import annotations

from .state import State, Tag, key

PLACEHOLDER_TOKENS = 6
"""What stands where a part was dropped costs about so much."""


def left(state: State, m: int, p: int, tokens: int) -> int:
    """Return what part ``p`` of message ``m`` costs, whose content has ``tokens``, less what of it is not sent."""
    return max(tokens - state.spares.get(key(m, p), 0), 0)


def sent(state: State, tag: Tag) -> int:
    """Return what is sent of a numbered part, dropped or not; its call's cost is reckoned where the call stands."""
    if tag.status != "dropped":
        return of(state, tag)
    return 0 if tag.mode == "full" else left(state, tag.m, tag.p, PLACEHOLDER_TOKENS)


def of(state: State, tag: Tag) -> int:
    """Return what the part of an active tag costs."""
    return left(state, tag.m, tag.p, tag.tokens)

"""A text as several lanes leave it: whichever writes it anew begins with what the host sent (THINK-8)."""

from __future__ import annotations

from ...inline import without
from ...state import TERSE
from .compress import compress
from .injected import stripped
from .shape import Ask

DEPTHS = ("", *TERSE)


def written(ask: Ask, number: int, original: str, *, quiet: bool, depth: int) -> str:
    """Return text ``number`` as it is to be sent.

    ``quiet``: without the reasoning written into it; ``depth``: in how much fewer words. What programs put into it is
    out of it where its lane has looked, or looks on this pass: not in the first message, nor where it is new.
    """
    state = ask.scene.state
    found = without(original) if quiet else original
    if number <= state.swept and state.pos.get(state.tags[number - 1].m, -1) >= 1:
        found = stripped(found)
    return compress(found, depth) if depth else found


def spared(tokens: int, original: str, left: str, known: int) -> int:
    """Return about how many of a text's ``tokens`` are no longer sent, ``known`` of them already."""
    return max(tokens * (len(original) - len(left)) // len(original), known)

"""An answer that does not fit behind its request: asked for again, only as long as there is room (PROXY-57)."""

from __future__ import annotations

from ...domain.overflow import Explained
from .body import rewrite, take
from .protocols.base import small

MEMBERS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""How the wires name the longest answer a request takes."""
MARGIN = 256
"""Tokens left free: providers count what they add themselves."""
LEAST = 1_024
"""An answer shorter than this is no help to anybody."""


def lowered(payload: bytes, member: str, found: Explained) -> bytes | None:
    """Return a refused request that asks for as long an answer as fits; None where that is not known, or too short.

    ``member``: where its messages stand; ``found``: what the provider said of it.
    """
    room = found.limit - found.input - MARGIN
    if not found.output_driven or found.limit <= 0 or found.input <= 0 or room < LEAST:
        return None
    body = take(payload, member, None)
    name = next((name for name in MEMBERS if name in body.spans), "")
    asked = small(body, name) if name else None
    thinking = small(body, "thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else 0
    if not isinstance(asked, int) or asked <= room or (isinstance(budget, int) and budget >= room):
        return None
    return rewrite(body, {name: [str(room).encode()]})

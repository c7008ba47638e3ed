"""Lane: what the agent marked as spent (``transform.md`` 3.2)."""

from __future__ import annotations

from .shape import Ask, Work


def plan(ask: Ask) -> Work:
    """Take out all of the queue that stands within reach."""
    return Work("queued", tuple(item for item in ask.queued if item.index >= ask.begin))

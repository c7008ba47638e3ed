"""Lane: tool output seen at one rebuild leaves at the next (``transform.md`` 3.5)."""

from __future__ import annotations

from .drops import drop
from .shape import Ask, Item, Work

NAME = "age"
WORTH = 250
"""Tokens of call and result below which an arc is left where it is."""


def plan(ask: Ask) -> Work:
    """Take out the arcs that were there at the last rebuild already; protected ones stay."""
    if not ask.routine:
        return Work(NAME)
    state = ask.scene.state
    items: list[Item] = []
    for number in ask.tools:
        if number > state.swept:
            break
        if number in ask.spared or number in ask.taken:
            continue
        item = drop(ask.scene, number, ask.recent)
        if item is not None and item.index >= ask.begin and item.net >= WORTH:
            items.append(item)
    return Work(NAME, tuple(items))

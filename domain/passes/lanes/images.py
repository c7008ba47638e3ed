"""Lane: files a person showed, once the model has answered and later things have left (``transform.md`` 4.8)."""

from __future__ import annotations

from ...transcript import Media
from .drops import drop
from .shape import Ask, Item, Work

NAME = "images"
LARGE = 200
"""Bytes up to which a file costs nothing worth a thought: a link, not a picture."""


def plan(ask: Ask) -> Work:
    """Take out large files older than the newest thing that was ever dropped; each keeps its number in its place."""
    if not ask.routine:
        return Work(NAME)
    scene, state = ask.scene, ask.scene.state
    newest = next((n for n in range(len(state.tags), 0, -1) if state.tags[n - 1].status == "dropped"), 0)
    answered = _answered(ask)
    items: list[Item] = []
    for number in range(1, min(newest, state.swept) + 1):
        tag = state.tags[number - 1]
        if tag.kind != "file" or number in ask.taken:
            continue
        index = scene.index(tag.m)
        if not ask.begin <= index < answered:
            continue
        message = scene.message(tag.m)
        part = message.parts[tag.p] if tag.p < len(message.parts) else None
        if message.role == "user" and isinstance(part, Media) and part.size > LARGE:
            item = drop(scene, number, ask.recent)
            if item is not None and item.net > 0:
                items.append(item)
    return Work(NAME, tuple(items))


def _answered(ask: Ask) -> int:
    """Return the path index of the newest answer of the model: what stands before it was answered."""
    scene = ask.scene
    for index in range(scene.length() - 1, -1, -1):
        if scene.message(scene.at(index)).role == "assistant":
            return index
    return 0

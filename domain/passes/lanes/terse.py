"""Lane: old texts in fewer words, deeper the older they are, if the policy says so (``transform.md`` 4.7)."""

from __future__ import annotations

from ...edits import SetBody
from ...transcript import Text
from .shape import Ask, Item, Part, Work, chunk
from .texts import DEPTHS, spared, written

NAME = "terse"
SHARES = ((20, 3), (40, 2), (60, 1))
"""Of the eligible texts, oldest first: up to which per cent, and how deep."""


def wants(ask: Ask) -> frozenset[Part]:
    """Return the texts whose depth rises."""
    tags = ask.scene.state.tags
    return frozenset((tags[number - 1].m, tags[number - 1].p) for number, _ in _due(ask))


def plan(ask: Ask) -> Work:
    """Write the texts whose depth rises in fewer words, always from what the host sent."""
    items: list[Item] = []
    texts: dict[bytes, bytes] = {}
    for number, depth in _due(ask):
        tag = ask.scene.state.tags[number - 1]
        original = ask.facts.get((tag.m, tag.p), "")
        short = written(ask, number, original, quiet=ask.scene.state.quiet(tag.m, tag.p), depth=depth)
        if not short.strip() or number in ask.taken:
            continue
        digest = chunk(short, texts)
        known = ask.unsent(tag.m, tag.p)
        gone = spared(tag.tokens, original, short, known)
        edits = (SetBody(tag.m, tag.p, "text", digest),)
        spares = ((tag.m, tag.p, gone),)
        items.append(Item(number, DEPTHS[depth], edits, gone - known, ask.scene.index(tag.m), gone - known, spares))
    return Work(NAME, tuple(items), texts)


def _due(ask: Ask) -> list[tuple[int, int]]:
    """Return (tag, depth) of the texts whose depth rises on this pass."""
    scene, state = ask.scene, ask.scene.state
    if not (ask.settings.terse and ask.routine and state.primary):
        return []
    cutoff = _cutoff(ask)
    eligible = [
        number
        for number, tag in enumerate(state.tags[: min(state.swept, cutoff - 1)], 1)
        if tag.kind == "text"
        and tag.status == "active"
        and scene.index(tag.m) >= ask.begin
        and _long(ask, tag.m, tag.p)
    ]
    due: list[tuple[int, int]] = []
    for place, number in enumerate(eligible):
        depth = next((deep for share, deep in SHARES if place * 100 < share * len(eligible)), 0)
        if depth > DEPTHS.index(state.tags[number - 1].mode):
            due.append((number, depth))
    return due


def _cutoff(ask: Ask) -> int:
    """Return the oldest number of the newest, protected output; one of an old answer or list protects no text."""
    cutoff = len(ask.scene.state.tags) + 1
    for number in reversed(ask.tools):
        if number not in ask.spared:
            break
        cutoff = number
    return cutoff


def _long(ask: Ask, m: int, p: int) -> bool:
    parts = ask.scene.message(m).parts
    sent = ask.scene.index(m) >= ask.begin and m not in ask.scene.seen.revised
    part = parts[p] if sent and p < len(parts) else None
    return isinstance(part, Text) and part.size >= ask.settings.terse

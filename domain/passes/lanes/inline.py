"""Lane: old reasoning that a model wrote into its answers' texts (``transform.md`` 4.4).

It is text: it leaves on every wire, whatever becomes of reasoning that stands in parts of its own.
"""

from __future__ import annotations

from ...costs import PLACEHOLDER_TOKENS
from ...edits import SetBody
from ...inline import without
from ...state import INLINE, PARTS_LIMIT
from ...transcript import Text
from . import reasoning
from .shape import Ask, Item, Part, Work, chunk
from .texts import DEPTHS, spared, written


def wants(ask: Ask) -> frozenset[Part]:
    """Return the texts whose reasoning is older than the budget keeps."""
    tags = ask.scene.state.tags
    return frozenset((tags[number - 1].m, tags[number - 1].p) for number in _due(ask))


def plan(ask: Ask) -> Work:
    """Take it out of those texts; a text of which nothing is left becomes a placeholder."""
    scene, state = ask.scene, ask.scene.state
    items: list[Item] = []
    texts: dict[bytes, bytes] = {}
    for number in _due(ask):
        tag = state.tags[number - 1]
        original = ask.facts.get((tag.m, tag.p), "")
        part = scene.message(tag.m).parts[tag.p]
        if number in ask.taken or not original or not isinstance(part, Text):
            continue
        index, known = scene.index(tag.m), ask.unsent(tag.m, tag.p)
        left = written(ask, number, original, quiet=True, depth=DEPTHS.index(tag.mode))
        if not left.strip():
            net = max(tag.tokens - known, 0) - PLACEHOLDER_TOKENS
            items.append(Item(number, "placeholder", (SetBody(tag.m, tag.p, "placeholder"),), max(net, 0), index, net))
            continue
        digest = chunk(left, texts)
        plain = left == without(original)
        gone = max(part.inline, known) if plain else spared(tag.tokens, original, left, known)
        edits = (SetBody(tag.m, tag.p, "text", digest),)
        items.append(Item(number, INLINE, edits, gone - known, index, gone - known, ((tag.m, tag.p, gone),)))
    return Work("inline", tuple(items), texts)


def _due(ask: Ask) -> list[int]:
    """Return the numbers of the texts, as earlier requests showed them, whose reasoning the budget does not keep."""
    scene, state = ask.scene, ask.scene.state
    if not ask.routine or not any(state.inline.values()):
        return []
    old = reasoning.outdated(ask)
    found: list[int] = []
    for place, tokens in state.inline.items():
        m = place // PARTS_LIMIT
        if tokens and scene.index(m) in old and m not in scene.seen.revised:
            number = state.tag_of.get(place, 0)
            if number and state.tags[number - 1].status == "active":
                found.append(number)
    return sorted(found)

"""Lane: the agent's own calls that marked things as spent, and messages that hold nothing but placeholders.

``transform.md`` 4.9. Both free little, so neither is ever the reason of a rebuild.
"""

from __future__ import annotations

from ... import tools
from ...costs import PLACEHOLDER_TOKENS
from ...edits import SetShape
from ...names import EXEMPLARS
from ...state import key
from ...transcript import Part, Text
from .drops import drop
from .shape import Ask, Item, Work

TAIL = 40
"""The newest messages stay as they are, however empty."""


def reduces(ask: Ask) -> Work:
    """Take out calls of ``ctx_reduce`` older than the newest twenty tools, not the newest three nor protected ones."""
    state = ask.scene.state
    items: list[Item] = []
    if _rides(ask):
        for number in tools.here(ask.scene)[1][:-EXEMPLARS]:
            here = ask.scene.index(state.tags[number - 1].m) >= ask.begin
            kept = number in ask.recent or number in ask.spared or number in ask.taken
            if here and number <= state.swept and not kept:
                item = drop(ask.scene, number, ask.recent)
                if item is not None and item.index >= ask.begin and item.net > 0:
                    items.append(item)
    return Work("stale_reduce", tuple(items))


def hollow(ask: Ask) -> Work:
    """Leave out answers of the model of which only placeholders are left; never a person's message (T18).

    On OpenAI's wires they stay: some models there need an answer between a tool's output and the next prompt.
    """
    scene, state = ask.scene, ask.scene.state
    items: list[Item] = []
    if _rides(ask) and state.codec == "anthropic":
        for index in range(max(ask.begin, 1), scene.length() - TAIL):
            m = scene.at(index)
            message = scene.message(m)
            if message.role != "assistant" or m in scene.seen.revised or key(m, 0) in state.spares:
                continue
            parts = message.parts
            if scene.message(scene.at(index - 1)).role == "system":
                continue  # it would stand before a person's message (ANT-33)
            if parts and all(_empty(ask, m, p, part) for p, part in enumerate(parts)):
                frees = sum(PLACEHOLDER_TOKENS for part in parts if isinstance(part, Text) and not part.blank)
                spares = tuple((m, p, PLACEHOLDER_TOKENS) for p in range(len(parts)))
                items.append(Item(0, "", (SetShape(m, "absent"),), frees, index, frees, spares))
    return Work("hollow", tuple(items))


def _rides(ask: Ask) -> bool:
    """Whether something else is reason enough for this rebuild."""
    return ask.rides and (ask.wanted or ask.busy)


def _empty(ask: Ask, m: int, p: int, part: Part) -> bool:
    if not isinstance(part, Text) or part.blank:
        return isinstance(part, Text)
    number = ask.scene.state.tag_of.get(key(m, p), 0)
    return bool(number) and ask.scene.state.tags[number - 1].status == "dropped"

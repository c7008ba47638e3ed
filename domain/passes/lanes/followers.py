"""Lane: instructions in the middle of a conversation leave with the message they stand behind.

Anthropic's wire takes a system message only directly behind a user message (ANT-33). Where a drop takes the last of
that message away, what stands behind it goes too.
"""

from __future__ import annotations

from ...edits import SetShape
from ...identity import Scene
from ...state import key
from ...transcript import Call, Result, Text
from .shape import Ask, Item, Part, Work

CODEC = "anthropic"


def plan(ask: Ask) -> Work:
    """Leave out the system messages behind messages of which the lanes before take out the last part."""
    scene = ask.scene
    items: list[Item] = []
    if scene.state.codec == CODEC:
        for m in sorted({m for m, _ in ask.absent}):
            behind = scene.at(scene.index(m) + 1)
            if behind and scene.message(behind).role == "system" and vanished(scene, m, ask.absent):
                spares = tuple((behind, p, part.tokens) for p, part in enumerate(scene.message(behind).parts))
                frees = sum(tokens for _, _, tokens in spares)
                items.append(Item(0, "", (SetShape(behind, "absent"),), frees, scene.index(behind), frees, spares))
    return Work("followers", tuple(items))


def vanished(scene: Scene, m: int, absent: frozenset[Part] = frozenset()) -> bool:
    """Whether nothing of message ``m`` is sent, with the parts ``absent`` gone too."""
    state = scene.state
    for p, part in enumerate(scene.message(m).parts):
        if (m, p) in absent or (isinstance(part, Text) and part.blank):
            continue
        number = state.tag_of.get(key(m, p), 0) if isinstance(part, Result) else 0
        gone = number and state.tags[number - 1].status == "dropped" and state.tags[number - 1].mode == "full"
        if not gone and not (isinstance(part, Call) and f"{m}:{part.id}" in state.gone):
            return False
    return True

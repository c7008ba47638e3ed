"""Lane: a dropped arc comes back as a skeleton where its host went back to right behind it.

Nothing would stand between what the model said with the call and what it says now. To its provider both are then one
message, in which reasoning may only lead (ANT-19), and a request may not end with the model's own words (ANT-6, OAI-6).
"""

from __future__ import annotations

from ...costs import PLACEHOLDER_TOKENS
from ...edits import Edit, SetBody, SetMedia
from ...identity import Scene
from ...items import CODEC as ITEMS
from ...state import PARTS_LIMIT, key
from ...transcript import Call, Result, Text, Thinking
from .followers import vanished
from .shape import Ask, Item, Work


def torn(scene: Scene) -> dict[int, int]:
    """Return the numbers of the arcs that have to come back, with the path indexes of their calls.

    Looked at is all from where the host left what was sent: behind that it may have torn more than one place, and so
    may a branch that becomes the head, with each request it was. Not on OpenAI's items: they may end so.
    """
    state, seen = scene.state, scene.seen
    if seen.side or not state.gone or state.codec == ITEMS:
        return {}
    left = min(seen.keep, seen.touched, state.base_keep)  # a branch that becomes the head left it where it began
    begin = scene.start()
    found = (_torn(scene, index, begin) for index in range(left, scene.length() + 1))
    return dict(one for one in found if one is not None)


def _torn(scene: Scene, index: int, begin: int) -> tuple[int, int] | None:
    """Return what has to come back before a path index. ``begin``: the first one that is sent."""
    state = scene.state
    if not _joins(scene, index):
        return None
    number = 0
    for place in range(index - 1, begin - 1, -1):
        m = scene.at(place)
        number = number or _dropped(scene, m)
        if not vanished(scene, m):
            owner = state.call_of.get(key(state.tags[number - 1].m, state.tags[number - 1].p), 0) if number else 0
            said = scene.message(m).role == "assistant" and _seen(scene, m)
            return (number, scene.index(owner // PARTS_LIMIT)) if owner and said else None
    return None


def plan(ask: Ask) -> Work:
    """Bring those arcs back: each call with its arguments, and a placeholder for its result."""
    found = sorted(torn(ask.scene).items())
    items = (item for number, index in found if index >= ask.begin for item in _back(ask.scene, number, index))
    return Work("mended", tuple(items))


def _back(scene: Scene, number: int, index: int) -> list[Item]:
    """Return how an arc comes back; on paths the head left, where its call has other results, each with its own."""
    state = scene.state
    tag = state.tags[number - 1]
    owner = state.call_of[key(tag.m, tag.p)]
    m, p = divmod(owner, PARTS_LIMIT)
    cost = scene.message(m).parts[p].tokens + PLACEHOLDER_TOKENS
    edits, mode = _placeholder(scene, tag.m, tag.p)
    found = [Item(number, mode, (SetBody(m, p, "skeleton"), *edits), 0, index, -cost)]
    others = (place for place, one in state.call_of.items() if one == owner) if state.answers[owner] > 1 else ()
    for om, op in (divmod(place, PARTS_LIMIT) for place in others):
        other = state.tag_of.get(key(om, op), 0)
        if other not in (0, number) and state.waits(om) is None and state.tags[other - 1].mode == "full":
            edits, mode = _placeholder(scene, om, op)
            found.append(Item(other, mode, edits, 0, index, 0))
    return found


def _placeholder(scene: Scene, m: int, p: int) -> tuple[tuple[Edit, ...], str]:
    """Return the edits that leave a result's placeholder, and what such a drop is called."""
    result = scene.message(m).parts[p]
    if isinstance(result, Result) and result.media:
        return (SetBody(m, p, "placeholder"), SetMedia(m, p, "strip")), "skeleton_stripped"
    return (SetBody(m, p, "placeholder"),), "skeleton_real"


def _joins(scene: Scene, index: int) -> bool:
    """Whether the message at a path index, or the end of the request there, may not stand behind the model's words."""
    m = scene.at(index)
    if not m or scene.state.codec == "openai-chat":
        return not m
    message = scene.message(m)
    return message.role == "assistant" and any(isinstance(part, Thinking) for part in message.parts)


def _dropped(scene: Scene, m: int) -> int:
    """Return the number of the last result of a message that left whole, with its call, 0 for none."""
    state = scene.state
    numbers = (
        state.tag_of.get(key(m, p), 0) for p, part in enumerate(scene.message(m).parts) if isinstance(part, Result)
    )
    return max((n for n in numbers if n and state.tags[n - 1].mode == "full"), default=0)


def _seen(scene: Scene, m: int) -> bool:
    """Whether anything of an answer is sent: no call that left, nor placeholders of a message that was left out."""
    state = scene.state
    for p, part in enumerate(scene.message(m).parts):
        number = state.tag_of.get(key(m, p), 0)
        if (
            isinstance(part, Text)
            and number
            and (state.tags[number - 1].status == "active" or key(m, 0) not in state.spares)
        ):
            return True
        if isinstance(part, Call) and f"{m}:{part.id}" not in state.gone:
            return True
    return False

"""How a part leaves the request, whichever lane takes it out (``transform.md`` 3.2, 3.4).

A drop is *real or absent*: a call keeps its real arguments with a placeholder result, or goes with its result.
"""

from __future__ import annotations

from ... import costs, items, tools
from ...costs import PLACEHOLDER_TOKENS
from ...edits import Edit, SetBody, SetMedia
from ...identity import Scene
from ...state import PARTS_LIMIT, Tag, key
from ...transcript import Call, Media, Message, Result, Text, Thinking
from .shape import Item

SKELETONS = 20
SMALL_INPUT = 1_024


def recent_tools(scene: Scene) -> frozenset[int]:
    """Return the path's newest tool tags of any status: among them a small call stays as a skeleton."""
    return frozenset(tools.here(scene)[0][-SKELETONS:])


def queued(scene: Scene, protected: frozenset[int]) -> tuple[Item, ...]:
    """Return what the queue can take out now, in tag order.

    Left where they are: protected tags, arcs that are open or off the path.
    """
    recent = recent_tools(scene)
    found = (drop(scene, number, recent) for number in sorted(scene.state.queue) if number not in protected)
    return tuple(item for item in found if item is not None)


def drop(scene: Scene, number: int, recent: frozenset[int], *, kept: bool = False) -> Item | None:
    """Return how tag ``number`` leaves the request, None where it cannot now: gone already, open, off the path, or
    another part stands in its place.

    ``kept``: its call stays, whatever its size.
    """
    tag = scene.state.tags[number - 1]
    if tag.status != "active" or not scene.state.names(number):
        return None
    return _arc(scene, number, tag, recent, kept=kept) if tag.kind == "tool" else _content(scene, number, tag)


def _content(scene: Scene, number: int, tag: Tag) -> Item | None:
    index = scene.index(tag.m)
    if index < 0 or tag.m in scene.seen.revised:
        return None
    parts = scene.message(tag.m).parts
    part = parts[tag.p] if tag.p < len(parts) else None
    if not isinstance(part, Text | Media) or (isinstance(part, Text) and part.blank):
        return None
    edits = (SetBody(tag.m, tag.p, "placeholder"),)
    net = costs.of(scene.state, tag) - PLACEHOLDER_TOKENS
    return Item(number, "placeholder", edits, max(net, 0), index, net)


def _arc(scene: Scene, number: int, tag: Tag, recent: frozenset[int], *, kept: bool) -> Item | None:
    state = scene.state
    index = scene.index(tag.m)
    owner = state.call_of.get(key(tag.m, tag.p), 0)
    cm, cp = divmod(owner, PARTS_LIMIT)
    if index < 0 or tag.m in scene.seen.revised or not owner or scene.index(cm) < 0:
        return None
    message, caller = scene.message(tag.m), scene.message(cm)
    if tag.p >= len(message.parts) or cp >= len(caller.parts) or cm in scene.seen.revised:
        return None
    result, call = message.parts[tag.p], caller.parts[cp]
    if not isinstance(result, Result) or not isinstance(call, Call):
        return None
    small = number in recent and call.size > 0 and call.strings <= SMALL_INPUT
    last = _behind(scene, index) == scene.length()
    # a call that another path of the tree answers too cannot go: that path may come back
    shared = state.answers.get(owner, 0) > 1
    reasoned = _reasoned(scene, cm)
    if small or kept or last or shared or reasoned is None or _needs_skeleton(scene, index, message, cm):
        edits: tuple[Edit, ...] = (SetBody(cm, cp, "skeleton"), SetBody(tag.m, tag.p, "placeholder"))
        mode = "skeleton_real"
        if result.media:
            edits, mode = (*edits, SetMedia(tag.m, tag.p, "strip")), "skeleton_stripped"
        net = costs.of(state, tag) - PLACEHOLDER_TOKENS
        return Item(number, mode, edits, max(net, 0), index, net)
    edits = (SetBody(cm, cp, "absent"), SetBody(tag.m, tag.p, "absent"))
    thought = tuple((m, 0, scene.message(m).parts[0].tokens) for m in reasoned)
    edits = (*(SetBody(m, p, "absent") for m, p, _ in thought), *edits)
    net = costs.of(state, tag) + costs.left(state, cm, cp, call.tokens)
    net += sum(costs.left(state, m, p, tokens) for m, p, tokens in thought)
    first = min(index, scene.index(cm), *(scene.index(m) for m in reasoned))
    return Item(number, "full", edits, net, first, net, thought)


def _reasoned(scene: Scene, caller: int) -> tuple[int, ...] | None:
    """Return the messages that leave with a call, None where the call has to stay."""
    return items.companions(scene, caller) if scene.state.codec == items.CODEC else ()


def _needs_skeleton(scene: Scene, index: int, message: Message, cm: int) -> bool:
    """Whether removing the arc would touch native reasoning (3.4) or fuse two reasoned turns (``hosts.md`` 6.1, 9)."""
    if scene.state.codec in ("openai-chat", items.CODEC):
        return False
    thoughts = [p for p, part in enumerate(scene.message(cm).parts) if isinstance(part, Thinking)]
    if any(key(cm, p) not in scene.state.spares for p in thoughts):
        return True
    if _between(scene, index, message):
        return True
    following = scene.at(_behind(scene, index))
    # on opencode the results stand in the answer itself: without one it fuses with the answer behind it
    alone = message.role == "assistant" or _only_results(message)
    return bool(following and alone and any(isinstance(p, Thinking) for p in scene.message(following).parts))


def _only_results(message: Message) -> bool:
    """Whether nothing else of a message is sent: blank texts are not."""
    return all(isinstance(part, Result) or (isinstance(part, Text) and part.blank) for part in message.parts)


def _behind(scene: Scene, index: int) -> int:
    """Return the path index of what follows a message, instructions in the middle of the conversation passed over."""
    index += 1
    while index < scene.length() and scene.message(scene.at(index)).role == "system":
        index += 1
    return index


def _between(scene: Scene, index: int, message: Message) -> bool:
    """Whether a system message before the call would come to stand before a person's message (ANT-33)."""
    above, following = scene.at(index - 2), scene.at(_behind(scene, index))
    if scene.state.codec != "anthropic" or not above or scene.message(above).role != "system":
        return False
    return not _only_results(message) or (bool(following) and scene.message(following).role != "assistant")

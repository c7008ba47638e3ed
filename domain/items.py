"""Hosts whose messages are single items: reasoning, call and output each stand alone (``hosts.md`` 6.3).

One answer of the model is then a run of messages. What belongs together in it is said here, once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .transcript import Call, Message, Result, Thinking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .identity import Scene

CODEC = "openai-responses"


def made(message: Message) -> bool:
    """Whether a model's answer may hold this item; of an unknown one it is assumed."""
    return message.role in ("assistant", "other")


def tied(codec: str, before: Message | None, message: Message) -> bool:
    """Whether a message may not be parted from the one before it by a cut: both are of one answer (ITEM-6)."""
    return codec == CODEC and before is not None and made(before) and made(message)


def answer(scene: Scene, m: int) -> int:
    """Return the first message of the answer that ``m`` is of: ``m`` itself where an answer is one message."""
    index = scene.index(m)
    while index > 0 and tied(scene.state.codec, scene.message(scene.at(index - 1)), scene.message(scene.at(index))):
        index -= 1
    return scene.at(index) if index >= 0 else m


def reasoning(message: Message) -> bool:
    """Whether a message is a reasoning item."""
    return any(isinstance(part, Thinking) for part in message.parts)


def holds(message: Message, call: str) -> bool:
    """Whether a message is the call of this id."""
    return any(isinstance(part, Call) and part.id == call for part in message.parts)


def may_hold(message: Message, call: str) -> bool:
    """Whether a message is the call of this id, or an unknown item, which may stand for it."""
    return message.role == "other" or holds(message, call)


def companions(scene: Scene, caller: int) -> tuple[int, ...] | None:
    """Return the reasoning that has to leave with the call ``caller``; None where the call has to stay (ITEM-5).

    A reasoning item is followed by what it led to. It leaves with its call, where that was all it led to.
    """
    at = scene.index(caller)
    found: list[int] = []
    for index in range(at - 1, -1, -1):  # no cut parts them, an earlier one that a fold goes back to neither (ITEM-6)
        m = scene.at(index)
        if not reasoning(scene.message(m)):
            break
        if m in scene.seen.revised:
            return None
        found.append(m)
    following = scene.at(at + 1)
    if found and following and made(scene.message(following)):
        return None
    return tuple(found)


def led_to(scene: Scene, m: int) -> Iterator[tuple[int, Call]]:
    """Yield the call (its message and part) that the reasoning ``m`` led to, where it led to a call."""
    for index in range(scene.index(m) + 1, scene.length()):
        following = scene.message(scene.at(index))
        if reasoning(following):
            continue
        for part in following.parts:
            if isinstance(part, Call):
                yield scene.at(index), part
        return


def caller(scene: Scene, m: int, part: Result) -> int:
    """Return the message that made the call a result answers, 0 if it is not on the path."""
    for index in range(scene.index(m) - 1, -1, -1):
        if holds(scene.message(scene.at(index)), part.id):
            return scene.at(index)
    return 0

"""Where an arc of ours may stand between a host's messages, whatever wire they go out on.

Never between a call and its results, and never directly behind a person's words in the turn that runs: there a provider
may want the model's own answer, which begins with its reasoning, to come first (``hosts.md`` 6.1 rules 5, 7).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ... import items
from ...identity import Scene
from ...state import key
from ...todos import is_ours
from ...transcript import Call, Message, Part, Result, Text
from .shape import Ask

SEALED = ("gemini",)
"""Models whose provider wants a signature of its own on each call of the running turn."""


class _Ground(msgspec.Struct, frozen=True):
    """What is asked again and again. ``fresh``: first new part by message; ``gone``: ids of calls that were dropped."""

    ask: Ask
    fresh: dict[int, int]
    gone: frozenset[str]

    def kept(self, index: int, *kinds: type) -> bool:
        """Whether the request still holds a part of these kinds of the message at a path index."""
        m = self.ask.scene.at(index)
        parts = enumerate(self.ask.scene.message(m).parts)
        return any(isinstance(part, kinds) and self._sent(m, p, part) for p, part in parts)

    def _sent(self, m: int, p: int, part: Part) -> bool:
        state, fresh = self.ask.scene.state, p >= self.fresh.get(m, p + 1)
        if (m, p) in self.ask.absent or (isinstance(part, Text) and part.blank):
            return False
        if isinstance(part, Call | Result) and is_ours(part.id):
            return (
                part.id not in state.units and key(m, p) not in state.spares
            )  # one of ours that came back is left out
        if isinstance(part, Call):
            return part.id not in self.gone if fresh else f"{m}:{part.id}" not in state.gone
        if fresh:
            return not isinstance(part, Result) or part.id not in self.gone
        number = state.tag_of.get(key(m, p), 0)
        tag = state.tags[number - 1] if number else None
        return tag is not None and (tag.status == "active" or (isinstance(part, Result) and tag.mode != "full"))


def places(ask: Ask, lowest: int) -> Iterator[tuple[int, bool]]:
    """Yield the path indexes an arc may stand behind, from the newest back to ``lowest``.

    With each, whether results stand before it there; else it is a text that ended a turn of long ago.
    """
    scene, state = ask.scene, ask.scene.state
    fresh = dict(scene.unshown())
    ground = _Ground(ask, fresh, frozenset(name.partition(":")[2] for name in state.gone) if fresh else frozenset())
    said = _said(scene)
    occupied = {unit.m for id, unit in state.units.items() if not is_ours(id)}
    open_calls: set[str] = set()
    answered = False  # whether an answer of the model stands behind the place
    for index in range(scene.length() - 1, max(ask.start, lowest) - 1, -1):
        m, behind = scene.at(index), scene.at(index + 1)
        parted = bool(behind) and scene.message(behind).role == "system"  # it belongs to what it stands behind
        if not open_calls and not parted and m not in occupied:
            owner = _spoken(scene, index)
            if owner >= ask.start and _behind_results(ground, owner, said, answered=answered):
                yield index, True
            elif owner >= ask.start and owner < said and answered and _ended(ground, owner):
                yield index, False
        for part in reversed(scene.message(m).parts):
            if isinstance(part, Result):
                open_calls.add(part.id)
            elif isinstance(part, Call):
                open_calls.discard(part.id)
        answered = answered or (scene.message(m).role == "assistant" and ground.kept(index, Text, Call))


def _behind_results(ground: _Ground, index: int, said: int, *, answered: bool) -> bool:
    """Whether an arc may follow the results at a path index: in the running turn, or where an answer comes later."""
    running = index > said and not any(word in ground.ask.model.lower() for word in SEALED)
    if not running and not (index < said and answered):
        return False
    return ground.kept(index, Result) and _closed(ground.ask.scene, index)


def _ended(ground: _Ground, index: int) -> bool:
    """Whether the answer at a path index ended its turn with words, and a person's follow."""
    scene = ground.ask.scene
    message, behind = scene.message(scene.at(index)), scene.at(index + 1)
    asks = any(isinstance(part, Call | Result) for part in message.parts)
    follows = bool(behind) and scene.message(behind).role == "user"
    return message.role == "assistant" and not asks and follows and ground.kept(index, Text)


def _said(scene: Scene) -> int:
    """Return the path index of the newest message that may be a person's words, beside results or not; -1 for none."""
    for index in range(scene.length() - 1, -1, -1):
        message = scene.message(scene.at(index))
        if message.role in ("user", "other") and any(_spoke(part) for part in message.parts):
            return index
    return -1


def _spoke(part: Part) -> bool:
    return not isinstance(part, Result) and not (isinstance(part, Text) and part.blank)


def _spoken(scene: Scene, index: int) -> int:
    """Return the path index of what a place stands behind: system messages belong to what is before them."""
    while index >= 0 and scene.message(scene.at(index)).role == "system":
        index -= 1
    return index


def _closed(scene: Scene, index: int) -> bool:
    """Whether every call of the round that ends with the results at a path index is answered in it."""
    answers: set[str] = set()
    while index >= 0:
        message = scene.message(scene.at(index))
        for part in reversed(message.parts):
            if isinstance(part, Result):
                answers.add(part.id)
            elif isinstance(part, Call) and part.id not in answers:
                return False
        if _began(scene.state.codec, message):
            return True
        index -= 1
    return True


def _began(codec: str, message: Message) -> bool:
    """Whether a round of calls begins with this message at the latest."""
    if codec == items.CODEC:
        return not any(isinstance(part, Call | Result) for part in message.parts)
    return message.role == "assistant"

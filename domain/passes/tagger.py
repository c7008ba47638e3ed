"""Numbers for parts that no request held yet (``transform.md`` 2.1 to 2.5, conventions 9 and 10)."""

from __future__ import annotations

import hashlib

import msgspec

from .. import items
from ..edits import Arrival, Edit, SetBody, SetShape, SetThink
from ..identity import Scene
from ..state import key
from ..transcript import Call, Media, Message, Part, Result, Text, Thinking, thinks_alone
from .lanes.followers import vanished
from .lanes.reasoning import wants_signatures

NO_CONTENT = b"(no content)"
"""What stands for a user turn whose texts were all blank: providers refuse an empty turn; it may not vanish (T18)."""
TAG_TOKENS = 4
"""What a shown ``§N§ `` costs, about, in tokens."""


class Tagged(msgspec.Struct, frozen=True):
    """The arrivals of a pass, the local tokens they add, and the texts (by digest) their edits name."""

    arrivals: tuple[Arrival, ...]
    tokens: int
    texts: dict[bytes, bytes]


def tag(scene: Scene, *, bound: bool = False, model: str = "", managed: bool = True) -> Tagged:
    """Number every part that is new or revised, in path order, part order.

    ``bound``: the model's signed reasoning is bound to the bytes before it; a text before a signed block of the same
    answer then gets its number but shows none (convention 9). ``model``: whom the request is for.
    ``managed``: what is marked can leave; else a number is of no use, and none is shown.
    """
    state = scene.state
    following = len(state.tags) + 1
    arrivals: list[Arrival] = []
    tokens = 0
    texts: dict[bytes, bytes] = {}
    for m, first in scene.unshown():
        message = scene.message(m)
        numbers: list[int] = []
        sealed = _last_signed(message) if bound else -1
        loose = unnumbered(scene, first, message, model)
        left = gone(scene, m, first, message)
        unsent = thinks_alone(state.codec, message)
        for p in range(first, len(message.parts)):
            part = message.parts[p]
            tokens += part.tokens if p not in loose and p not in left and not unsent else 0
            number = 0
            if taggable(message, part) and p not in loose:
                number = _known(scene, m, p, part)
                if not number:
                    number, following = following, following + 1
            # a number the agent cannot use is known, not shown (convention 10)
            visible = managed and state.reduce and p > sealed
            tokens += TAG_TOKENS if number and visible else 0
            numbers.append(number if visible else -number)
        edits = (*_repairs(state.codec, m, first, message, texts), *(SetBody(m, p, "absent") for p in sorted(left)))
        edits = (*edits, *(_without(m, p, message.parts[p]) for p in sorted(loose)))
        if message.role == "system" and state.codec == "anthropic" and _orphan(scene, m):
            edits = (*edits, SetShape(m, "absent"))
        arrivals.append(Arrival(m, first, tuple(numbers), edits))
    return Tagged(tuple(arrivals), tokens, texts)


def unnumbered(scene: Scene, first: int, message: Message, model: str) -> frozenset[int]:
    """Return the parts from ``first`` on, in no request yet, that are left out and get no number."""
    return frozenset((*_unsigned(scene.state.codec, model, message, first), *_ours(scene, first, message)))


def gone(scene: Scene, m: int, first: int, message: Message) -> frozenset[int]:
    """Return the halves of a dropped arc that the host sends anew: they stay out of the request (PROP-3)."""
    state = scene.state
    if not state.gone:
        return frozenset()
    return frozenset(
        p
        for p, part in enumerate(message.parts)
        if p >= first
        and (
            (isinstance(part, Call | Result) and f"{_caller(scene, m, part)}:{part.id}" in state.gone)
            or (isinstance(part, Thinking) and _led_to_gone(scene, m))
        )
    )


def _ours(scene: Scene, first: int, message: Message) -> list[int]:
    """Return the halves of an arc of ours that a host sends back while it stands: it is sent once, where we put it."""
    units, parts = scene.state.units, enumerate(message.parts)
    return [p for p, part in parts if p >= first and isinstance(part, Call | Result) and part.id in units]


def _without(m: int, p: int, part: Part) -> Edit:
    return SetThink(m, p, "absent") if isinstance(part, Thinking) else SetBody(m, p, "absent")


def _led_to_gone(scene: Scene, m: int) -> bool:
    """Whether this is a reasoning item whose call has left: it may not come back without it (ITEM-5)."""
    if scene.state.codec != items.CODEC:
        return False
    return any(f"{owner}:{call.id}" in scene.state.gone for owner, call in items.led_to(scene, m))


def _orphan(scene: Scene, m: int) -> bool:
    """Whether nothing is left of the message a system message stands behind: it may not stand alone (ANT-33)."""
    above = scene.at(scene.index(m) - 1)
    return bool(above) and bool(scene.message(above).parts) and vanished(scene, above)


def _caller(scene: Scene, m: int, part: Call | Result) -> int:
    if isinstance(part, Result) and scene.state.codec == items.CODEC:
        return items.caller(scene, m, part)
    if isinstance(part, Call) or scene.message(m).role == "assistant":  # opencode: both stand in one message
        return m
    index = scene.index(m) - 1
    while index > 0 and scene.message(scene.at(index)).role != "assistant":
        index -= 1
    return scene.at(index)


def _last_signed(message: Message) -> int:
    if message.role != "assistant":
        return -1
    return max((p for p, part in enumerate(message.parts) if isinstance(part, Thinking) and part.signed), default=-1)


def _unsigned(codec: str, model: str, message: Message, first: int) -> list[int]:
    """Return the parts that are reasoning whose signature is lost: the provider refuses them (THINK-5)."""
    if message.role != "assistant" or not wants_signatures(codec, model):
        return []
    parts = enumerate(message.parts)
    return [p for p, part in parts if p >= first and isinstance(part, Thinking) and not part.signed]


def taggable(message: Message, part: Part) -> bool:
    """Whether a part gets a number: non-blank texts of people and the model, tool results, files."""
    if isinstance(part, Text):
        return not part.blank and message.role in ("user", "assistant")
    return isinstance(part, Result | Media)


def _known(scene: Scene, m: int, p: int, part: Part) -> int:
    number = scene.state.tag_of.get(key(m, p), 0)
    kind = "text" if isinstance(part, Text) else "tool" if isinstance(part, Result) else "file"
    return number if number and scene.state.tags[number - 1].kind == kind else 0


def _repairs(codec: str, m: int, first: int, message: Message, texts: dict[bytes, bytes]) -> tuple[Edit, ...]:
    """Leave out blank texts where the provider refuses them (``hosts.md`` 6.1 rule 4)."""
    if codec != "anthropic":
        return ()
    blank = [p for p, part in enumerate(message.parts) if isinstance(part, Text) and part.blank]
    fresh = [p for p in blank if p >= first]
    if not fresh and message.parts:
        return ()
    if len(blank) < len(message.parts):
        return tuple(SetBody(m, p, "absent") for p in fresh)
    if message.role in ("assistant", "system"):
        return (SetShape(m, "absent"),)
    digest = hashlib.sha256(NO_CONTENT).digest()
    texts[digest] = NO_CONTENT
    return (SetShape(m, "shell", digest),)

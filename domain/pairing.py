"""Tool calls and their results in what a host hands over (``hosts.md`` 6.1 rule 5, 6.2).

Checked before anything is decided: a request that no provider accepts is refused with the place of the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from . import items
from .errors import MessageError
from .identity import Observation, Scene
from .state import PARTS_LIMIT, State
from .transcript import Call, Message, Result

CLOSING = ("pi", "opencode")
"""Codecs whose host answers an interrupted call itself when it makes the provider's request."""


def check_news(state: State, seen: Observation) -> None:
    """Check calls and results from the last turn boundary before what is new or changed. Raises ``MessageError``."""
    scene = Scene(state, seen)
    begin = min(seen.touched, seen.keep)
    while begin > 0:
        begin -= 1
        if scene.message(scene.at(begin)).role == "assistant":
            break
    while begin > 0 and items.tied(state.codec, scene.message(scene.at(begin - 1)), scene.message(scene.at(begin))):
        begin -= 1

    def known(call: str) -> bool:
        owner = state.calls.get(call, 0) // PARTS_LIMIT
        return bool(owner) and -1 < scene.index(owner) < begin

    told = ((index, scene.message(scene.at(index))) for index in range(begin, scene.length()))
    if state.codec == items.CODEC:
        before = range(begin - 1, -1, -1)
        check_items(told, lambda call: any(items.may_hold(scene.message(scene.at(index)), call) for index in before))
    else:
        check(told, state.codec, known)


def check(messages: Iterable[tuple[int, Message]], codec: str, known: Callable[[str], bool]) -> None:
    """Check (array index, message) pairs that begin at a turn boundary: nothing open before the first of them.

    ``known(id)``: whether a call of that id stands earlier in the request. Raises ``MessageError`` for a result without
    a call, a call without its result in the next turn, and an id used twice. Some hosts close open calls themselves
    (``CLOSING``): there only ids and owners are checked.
    """
    open_calls: dict[str, int] = {}
    used: set[str] = set()
    for index, message in messages:
        if message.role == "assistant":
            if open_calls and codec not in CLOSING:
                raise _unanswered(open_calls)
            open_calls = {}
        for p, part in enumerate(message.parts):
            where = f"messages[{index}].content[{p}]"
            if isinstance(part, Call):
                again = part.id in open_calls or (codec == "anthropic" and (part.id in used or known(part.id)))
                if again:
                    raise MessageError(
                        "two tool calls carry the same id; a provider refuses that", value=part.id, where=where
                    )
                open_calls[part.id] = index
                used.add(part.id)
            elif isinstance(part, Result):
                if part.id not in open_calls:
                    raise MessageError(
                        "a tool result answers no call of the turn before it; send the call too, or leave the result "
                        "out",
                        value=part.id,
                        where=where,
                    )
                del open_calls[part.id]
    if open_calls and codec not in CLOSING:
        raise _unanswered(open_calls)


def check_items(messages: Iterable[tuple[int, Message]], known: Callable[[str], bool]) -> None:
    """Check (array index, message) pairs of a host whose messages are items: the answers need not follow at once.

    ``known(id)``: whether a call of that id stands before these messages; it is taken for answered, or answered here.
    Raises ``MessageError`` for an output without a call before it, a call without an output, and an id open twice. An
    item that is not known (a reference to what the provider keeps) may be any call.
    """
    open_calls: dict[str, int] = {}
    loose = False
    for index, message in messages:
        loose = loose or message.role == "other"
        for part in message.parts:
            if isinstance(part, Call):
                if part.id in open_calls:
                    raise MessageError(
                        "two tool calls carry the same id; a provider refuses that",
                        value=part.id,
                        where=f"messages[{index}]",
                    )
                open_calls[part.id] = index
            elif isinstance(part, Result) and part.id in open_calls:
                del open_calls[part.id]
            elif isinstance(part, Result) and not loose and not known(part.id):
                raise MessageError(
                    "an output answers no call before it; send the call too, or leave the output out",
                    value=part.id,
                    where=f"messages[{index}]",
                )
    if open_calls:
        raise _unanswered(open_calls)


def _unanswered(open_calls: dict[str, int]) -> MessageError:
    call, index = next(iter(open_calls.items()))
    return MessageError(
        "a tool call has no result in the turn behind it; add the result (an error result for an interrupted call)",
        value=call,
        where=f"messages[{index}]",
    )

"""The agent's tools: one table of what each is called, takes and does. Who serves them, and how, is not told here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ...domain.errors import InputError

if TYPE_CHECKING:  # the server lists tools at once and opens a session much later, if ever: hosts wait for its start
    from ...api import Session

LONGEST = 100_000
"""Characters of one answer; what was expanded beyond it is named and left for another call."""


class Tool(msgspec.Struct, frozen=True):
    """A tool. ``schema``: JSON schema of its arguments; ``run``: session, arguments, command id -> text for the model.

    A command id is the host's id of the call: a repeated call is applied once.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    run: Callable[[Session, Mapping[str, Any], str], str]


def _reduce(session: Session, arguments: Mapping[str, Any], command: str) -> str:
    return session.reduce(arguments.get("drop"), command)  # type: ignore[arg-type]  # it says itself what is wrong


def _expand(session: Session, arguments: Mapping[str, Any], command: str) -> str:
    tag, start, end = (arguments.get(name) for name in ("tag", "start", "end"))
    if (tag is None) == (start is None):
        raise InputError(
            "ctx_expand takes either 'tag', the numbers of parts such as '12' or '3-5,8', or 'start' and 'end', the "
            "ordinals of messages",
            value=dict(arguments),
        )
    replies = session.expand(tag) if tag is not None else session.expand(start, start if end is None else end)  # type: ignore[arg-type]  # as above
    pieces: list[str] = []
    left = LONGEST
    for index, reply in enumerate(replies):
        head = f"§{reply.tag}§ " if reply.tag else f"[{reply.m}] "
        text = head + reply.text
        if len(text) > left:
            rest = [f"§{one.tag}§" if one.tag else f"message {one.m}" for one in replies[index + 1 :]]
            pieces.append(text[:left] + f"\n… cut: {len(text) - left:,} more characters of {head.strip()}")
            if rest:
                pieces.append(f"Not shown: {', '.join(rest[:50])}{' …' if len(rest) > 50 else ''}. Ask for fewer.")
            break
        pieces.append(text)
        left -= len(text)
    return "\n\n".join(pieces) or "There is nothing at these numbers."


_SESSION = {
    "type": "string",
    "description": "Leave out. Only if the answer says that several sessions fit: the one of those it names.",
}
TABLE = (
    Tool(
        "ctx_reduce",
        "Mark parts of this conversation as spent, by the numbers shown in front of them (§12§). They leave the "
        "context later, together with other work; marking is free, and ctx_expand brings a part back.",
        {
            "type": "object",
            "properties": {
                "drop": {"type": "string", "description": "Numbers of what is no longer needed, such as '3-5,8'."},
                "session": _SESSION,
            },
            "required": ["drop"],
        },
        _reduce,
    ),
    Tool(
        "ctx_expand",
        "Bring back the original of what was dropped or summarised: parts by their numbers, or messages by ordinals.",
        {
            "type": "object",
            "properties": {
                "tag": {"type": "string", "description": "Numbers of parts, such as '12' or '3-5,8'."},
                "start": {"type": "integer", "description": "Ordinal of the first message, as a summary names it."},
                "end": {"type": "integer", "description": "Ordinal of the last message; else only the first."},
                "session": _SESSION,
            },
        },
        _expand,
    ),
)
"""The tools there are. A new one is a new row."""


def tool(name: str) -> Tool:
    """Return the tool of that name. Raises ``InputError``."""
    found = next((one for one in TABLE if one.name == name), None)
    if found is None:
        raise InputError(
            f"foldlog has no tool of this name; there are {', '.join(one.name for one in TABLE)}", value=name
        )
    return found


def perform(name: str, session: Session, arguments: Mapping[str, Any], command: str = "") -> str:
    """Carry out one call and return its text for the model.

    ``command``: the host's id of the call, so that a repeated call is applied once. Raises ``FoldlogError``: a wrong
    argument, an unknown number, a store that cannot be used.
    """
    return tool(name).run(session, arguments, command)

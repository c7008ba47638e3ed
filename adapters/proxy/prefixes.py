"""Which session a request belongs to whose client names none: told by the messages themselves (``specs/proxy.md``).

A session is known by the identities of the messages it last sent. Marks, key order and the form of a text are in none
of them (``specs/json-forms.md``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import takewhile

import msgspec

from ...domain.transcript import Call, Message
from ...projections.wire import CURRENT, wire
from .regions import Regions

REWOUND = 2
"""Answers two requests must share for one that leaves the other's path to count as its rewind, not as a stranger."""


class Turn(msgspec.Struct, frozen=True):
    """A message as it is recognised: identity, role, and the ids of the calls in it."""

    ident: bytes
    answer: bool
    calls: tuple[str, ...] = ()


class Known(msgspec.Struct, frozen=True):
    """A session and the messages of its last request. ``regions``: None where this process did not see them.

    ``calls``: the ids of the calls in the answer to that request, as far as it was heard.
    """

    name: str
    turns: Sequence[Turn]
    regions: Regions | None = None
    calls: tuple[str, ...] = ()


def turn(codec: str, raw: bytes, index: int) -> Turn:
    """Return how a message is recognised. Raises ``MessageError`` where it cannot be read."""
    return stored(wire(CURRENT).read(codec, raw, _uncounted, f"messages[{index}]").message)


def stored(message: Message) -> Turn:
    """Return how a message is recognised, from its neutral form."""
    calls = tuple(part.id for part in message.parts if isinstance(part, Call))
    return Turn(message.ident, message.role == "assistant", calls)


def _uncounted(_: str) -> int:
    return 0


def name(codec: str, first: Turn, scope: str) -> str:
    """Return the name all sessions share that begin with this message: it is the same after a restart."""
    said = b"\0".join((codec.encode(), scope.encode("utf-8", "replace"), first.ident))
    return "prefix-" + sha256(said).hexdigest()[:16]


def owner(turns: Sequence[Turn], regions: Regions, known: Iterable[Known]) -> str | None:
    """Return the session a request belongs to, None for a new one.

    It goes on where a session ended (the longest wins), repeats or shortens what one sent, or leaves it at a prompt
    behind at least ``REWOUND`` common answers (a rewind). Where the answers differ it is another's, or a new one.
    """
    best: tuple[int, int, str] | None = None
    for one in known:
        same = _common(turns, one.turns)
        rank = _rank(turns, regions, one, same)
        if rank and (best is None or (rank, same) > best[:2]):
            best = (rank, same, one.name)
    return best[2] if best else None


def rewritten(turns: Sequence[Turn], known: Iterable[Known]) -> str | None:
    """Return the session whose first message the client wrote anew, such as a date in it; None where there is none.

    All it sent behind the first message must be there again, with at least ``REWOUND`` answers.
    """
    best = ("", 0)
    for one in known:
        length = len(one.turns)
        if length > best[1] and turns[1:length] == one.turns[1:] and sum(map(_answers, one.turns)) >= REWOUND:
            best = (one.name, length)
    return best[0] or None


def _rank(turns: Sequence[Turn], regions: Regions, one: Known, same: int) -> int:
    if same == len(one.turns):
        if len(turns) == same:  # a repetition; two that begin alike are told apart by what stands above them
            return 3 if one.regions in (None, regions) else 0
        answer = [part.calls for part in takewhile(_answers, turns[same:])]
        if one.calls and answer and not any(call in one.calls for calls in answer for call in calls):
            return 0  # it holds an answer that session did not get
        return 3
    shared = sum(known.answer for known in one.turns[:same])
    if shared < REWOUND:
        return 0
    if len(turns) == same:
        return 2
    return 0 if turns[same].answer else 2


def _answers(turn: Turn) -> bool:
    return turn.answer


def _common(a: Sequence[Turn], b: Sequence[Turn]) -> int:
    limit = min(len(a), len(b))
    if a[:limit] == b[:limit]:  # the same objects, mostly
        return limit
    return next(index for index in range(limit) if a[index] != b[index])

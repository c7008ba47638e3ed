"""What the world answers a word that asks: how many notes wait, what a search found (``design.md`` 5: sans-I/O).

Answers are stored with the pass event as canonical JSON, so that a decision can be made again from them alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["memory", "message", "commit"]
KINDS: tuple[Kind, ...] = ("memory", "message", "commit")
HITS = 10
"""Most things a search is asked for."""
TEXT = 2_000
"""Characters of a thing found that are looked at."""
FULL = 10_000
"""The score of a perfect match."""


class Waiting(msgspec.Struct, frozen=True, array_like=True):
    """Notes of the agent that wait: ``notes`` of its session, ``ready`` ones of the project whose time has come.

    ``changed_ms``: wall clock when one of them was last written or became ready.
    """

    notes: int = 0
    ready: int = 0
    changed_ms: int = 0


class Hit(msgspec.Struct, frozen=True, array_like=True):
    """Something found: ``score`` in 1/10,000; of a commit its short hash and age, as a person reads it."""

    kind: Kind
    text: str
    score: int
    sha: str = ""
    age: str = ""


class Silence(msgspec.Struct, frozen=True):
    """No answer. ``how`` it broke and where; empty: it took too long."""

    how: str = ""


class Heard(msgspec.Struct, frozen=True):
    """The answers there are; None: not asked. ``unread``: how reading contents for words broke."""

    notes: Waiting | Silence | None = None
    hits: tuple[Hit, ...] | Silence | None = None
    unread: str = ""


def waiting(answer: Any) -> Waiting:
    """Return what a notes port said, checked. Raises ``TypeError``, ``ValueError``."""
    counts = [_whole(getattr(answer, name)) for name in Waiting.__struct_fields__]
    return Waiting(*counts)


def hits(answer: Iterable[Any]) -> tuple[Hit, ...]:
    """Return what a search port found, checked and cut to what is looked at. Raises ``TypeError``, ``ValueError``."""
    found: list[Hit] = []
    for one in answer:
        if one.kind not in KINDS:
            raise ValueError("a search found something of no known kind")
        score = one.score
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            raise TypeError("a score must be a number")
        texts = [_text(one.text, TEXT), _text(one.sha, 64), _text(one.age, 64)]
        found.append(Hit(one.kind, texts[0], round(min(max(score, 0), 1) * FULL), texts[1], texts[2]))
        if len(found) == HITS:
            break
    return tuple(found)


def answer(given: Waiting | tuple[Hit, ...]) -> bytes:
    """Return an answer as it is stored."""
    return msgspec.json.encode(given)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise TypeError("a count must be a whole number")
    return value


def _text(value: Any, limit: int) -> str:
    """Return a text that UTF-8 can hold."""
    if not isinstance(value, str):
        raise TypeError("what is found must be text")
    return value[:limit].encode("utf-8", "replace").decode()

"""A host's whole array, handed over again: what is to the letter what it was last time is not encoded again.

The host may have changed any of its objects in place, so identity of objects says nothing. What is compared is a digest
over all of a stretch of messages: types, key order, signs and bits of numbers. ``1``, ``1.0`` and ``True`` differ.
"""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Callable
from typing import Any

import msgspec

STRETCH = 32
"""Messages under one digest: one that changed costs the encoding of so many."""
_FORM = 2
"""The form of ``marshal`` that writes equal values as equal bytes; later ones depend on who else holds a string."""


class Taken(msgspec.Struct, frozen=True):
    """An array as it was taken in. ``digests``: of each stretch of ``raws``, empty where it must be encoded anew."""

    raws: list[bytes]
    digests: list[bytes]


def take(given: list[Any], encode: Callable[[list[Any], int], list[bytes]], last: Taken | None) -> Taken:
    """Return the raw JSON of each message, where nothing changed the very bytes objects of ``last``.

    ``encode(messages, index)`` returns the raw JSON of messages, the first of which stands at ``index``.
    """
    if set(map(type, given)) != {dict}:  # JSON already, which costs no more than a look
        return Taken(encode(given, 0), [])
    raws: list[bytes] = []
    digests: list[bytes] = []
    for at in range(0, len(given), STRETCH):
        stretch = given[at : at + STRETCH]
        known = last.raws[at : at + STRETCH] if last is not None else []
        said = last.digests[at // STRETCH] if last is not None and known and last.digests else b""
        same = bool(said) and len(known) <= len(stretch) and said == _digest(stretch[: len(known)])
        if not same:
            known = []
        if len(known) == len(stretch):
            raws += known
            digests.append(said)
            continue
        raws += known
        raws += encode(stretch[len(known) :], at + len(known))
        digests.append(_sealed(stretch, raws[at:]))
    return Taken(raws, digests)


def _digest(messages: Any) -> bytes:
    """Return a digest of Python objects, empty where they hold anything but JSON's own types."""
    try:
        return hashlib.sha256(marshal.dumps(messages, _FORM)).digest()
    except ValueError:
        return b""


def _sealed(messages: list[Any], raws: list[bytes]) -> bytes:
    """Return the digest of messages, empty where their JSON does not read back as just what they are.

    What reads back holds nothing but JSON's own types, each of which has its own form in the digest.
    """
    found = _digest(messages)
    try:
        back = _digest([msgspec.json.decode(raw) for raw in raws])
    except (msgspec.MsgspecError, RecursionError):
        return b""
    return found if found == back else b""

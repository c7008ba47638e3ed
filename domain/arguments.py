"""What a caller hands over beside messages, checked before anything is done with it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from .errors import InputError, MessageError, OptionError, UnknownTag
from .ranges import parse_tags
from .state import State


def milliseconds(now: Any) -> int | None:
    """Return epoch seconds or an aware datetime as ms UTC; None stays None. Raises ``InputError``."""
    if now is None:
        return None
    if isinstance(now, dt.datetime):
        if now.tzinfo is None:
            raise InputError("a time needs its zone: use an aware datetime or epoch seconds", value=now, where="now")
        now = now.timestamp()
    if isinstance(now, bool) or not isinstance(now, int | float) or not 0 <= now < 1e11:  # NaN compares false
        raise InputError("a time must be epoch seconds or an aware datetime", value=now, where="now")
    return round(now * 1000)


def count(name: str, value: Any) -> int:
    """Return a token count, -1 for one that is not known. Raises ``InputError``."""
    if value is None:
        return -1
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 53:
        raise InputError(
            "a token count must be a whole number, 0 or more; leave it out if it is not known", value=value, where=name
        )
    return value


def limit(name: str, value: Any) -> int | None:
    """Return a limit in tokens, None for one that is not given. Raises ``OptionError``."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 40:
        raise OptionError(
            "a limit must be a whole number of tokens; 0 or None if it is not known", value=value, where=name
        )
    return value


def one_of(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise ``OptionError`` unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise OptionError(f"{name} must be one of {', '.join(choices)}", value=value, where=name)


def able(name: str, value: Any, method: str) -> None:
    """Raise ``OptionError`` unless ``value`` is None or has ``method``: what cannot work is not found out in a turn."""
    if value is not None and not callable(getattr(value, method, None)):
        said = "can be called" if method == "__call__" else f"has a method {method!r}"
        raise OptionError(f"{name} must be None or something that {said}", value=value, where=name)


def text(name: str, value: Any) -> str:
    """Return ``value``. Raises ``OptionError`` unless it is text."""
    if not isinstance(value, str):
        raise OptionError(f"{name} must be text", value=value, where=name)
    return value


def named(name: str, value: Any) -> str:
    """Return ``value``. Raises ``OptionError`` unless it is text a log can hold: names are kept to the letter."""
    given = text(name, value)
    try:
        given.encode()
    except UnicodeEncodeError:
        raise OptionError(f"{name} holds half a character (a lone surrogate)", value=value, where=name) from None
    return given


def listed(name: str, value: Any) -> list[Any]:
    """Return a list or tuple as a list. Raises ``InputError``."""
    if isinstance(value, list | tuple):
        return list(value)
    raise InputError(f"{name} must be a list", value=value, where=name)


def pairs(value: Any) -> list[tuple[Any, Any]]:
    """Return pairs of handle and message. Raises ``InputError``."""
    found = listed("revised", value)
    for index, pair in enumerate(found):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InputError("a revision is a pair of handle and message", value=pair, where=f"revised[{index}]")
    return [(handle, message) for handle, message in found]


def numbers(tag: Any) -> tuple[int, ...]:
    """Return the tag numbers of a number or a tag list. Raises ``InputError``."""
    return (tag,) if isinstance(tag, int) and not isinstance(tag, bool) else parse_tags(tag)


def span(state: State, first: Any, last: Any) -> range:
    """Return the ordinals of a range of messages. Raises ``UnknownTag``."""
    if type(first) is not int or type(last) is not int or not 1 <= first <= last <= len(state.nodes):
        there = f"messages 1 to {len(state.nodes)}; a range must lie within them" if state.nodes else "no messages yet"
        raise UnknownTag(f"the session has {there}", value=f"{first}-{last}")
    return range(first, last + 1)


def handle(state: State, name: Any, where: str) -> int:
    """Return the ordinal of a message of the present request by its handle. Raises ``MessageError``."""
    m = state.hosts.get(name, 0) if isinstance(name, str) else name
    if isinstance(m, bool) or not isinstance(m, int) or m not in state.pos:
        raise MessageError(
            "no message of the present request has that handle; use the host's message id or the ordinal of "
            "Request.delta",
            value=name,
            where=where,
        )
    return m

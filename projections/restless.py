"""A system text that its host changes for each request, a clock in it say: which line does, for people (``FOLD-8``)."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import msgspec

from ..domain.errors import StoreDamaged
from ..domain.state import State
from .wire import wire
from .wire.contract import Wire

ROW = 3
"""Requests in a row, each with another system text, from which it is said."""
LONG = 80
"""Most characters of a line that are shown, the first that differs among them."""


class Changing(msgspec.Struct, frozen=True):
    """The first line of the system text that differs from the last one's: its number, from 1, and what it says now."""

    line: int
    text: str


def changing(state: State, text: Callable[[bytes], bytes]) -> Changing | None:
    """Return the line that makes each request's system text another, None where it does not change each time.

    ``text`` returns a stored text by its digest. None, too, where a text was purged.
    """
    if state.restless.row < ROW:
        return None
    form = wire(state.wire)
    try:
        was, here = text(state.restless.before), text(state.system) if state.system else b""
    except StoreDamaged:
        return None
    before, now = _lines(form, state.codec, was), _lines(form, state.codec, here)
    pairs = zip_longest(before, now, fillvalue="")
    for line, (old, new) in enumerate(pairs, 1):
        if old != new:
            return Changing(line, _shown(old, new))
    return Changing(0, "")  # the words are the same, and how they are cut into blocks is not


def note(found: Changing) -> str:
    """Return it in few words, with nothing of the text itself."""
    return f"the system text changes with each request, in {_where(found)}; foldlog status shows it"


def _where(found: Changing) -> str:
    return f"its line {found.line}" if found.line else "the way it is cut into blocks"


def words(found: Changing) -> str:
    """Return what changes, what it means and what to do."""
    said = f' ("{found.text}")' if found.text else ""
    return (
        f"the system text is another one with each request: {_where(found)} changes{said}. So the provider's cache "
        "holds nothing of the next request, and all of it is paid for anew each time. Take what changes there out of "
        "the host's system text, its rules or its plugins, or let it change once a day"
    )


def _lines(form: Wire, codec: str, raw: bytes) -> list[str]:
    values = (json.loads(block.form.decode("utf-8", "replace")) for block in form.system_blocks(codec, raw))
    return [line for value in values for line in _text(value).splitlines()]


def _text(value: Any) -> str:
    block = value.get("block") if isinstance(value, dict) else value
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else json.dumps(block)


def _shown(was: str, now: str) -> str:
    """Return a line, or where it is long the stretch around what differs in it first."""
    at = next((i for i, (a, b) in enumerate(zip(was, now, strict=False)) if a != b), min(len(was), len(now)))
    begin = max(min(at - LONG // 2, len(now) - LONG), 0)
    text = now[begin : begin + LONG]
    return ("…" if begin else "") + text + ("…" if begin + LONG < len(now) else "")

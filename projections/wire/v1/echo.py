"""Tag notation that comes back: the model's echo of ``§N§`` and how it is taken off (``transform.md`` 2.4)."""

from __future__ import annotations

import re

_WELL = r"§[0-9]++§"
_MALFORMED = r"§[0-9]++\">§(?:[0-9]++§)?"
_DANGLING = r"§[0-9]++(?!\.[0-9])[^\w\s.§]?"
_LEADING = re.compile(rf"(?:(?:{_WELL} ?)+|(?:{_MALFORMED}|{_DANGLING}) ?)")
_OWN = re.compile(rf"(?:{_WELL} ?)+")
_WELL_ANY = re.compile(_WELL)
_MALFORMED_ANY = re.compile(_MALFORMED)
_DANGLING_ANY = re.compile(_DANGLING)
_ROUNDS = 8


def echo_length(text: str) -> int:
    """Return how many characters of tag notation ``text`` begins with (at most 8 runs)."""
    at = 0
    if text.startswith("§"):
        for _ in range(_ROUNDS):
            found = _LEADING.match(text, at)
            if found is None:
                break
            at = found.end()
    return at


def own_length(text: str) -> int:
    """Return how many characters of well-formed notation ``text`` begins with: what foldlog itself writes."""
    found = _OWN.match(text)
    return found.end() if found else 0


def strip_echo(text: str) -> str:
    """Return ``text`` without leading tag notation: well-formed, malformed or dangling; bare digits stay."""
    return text[echo_length(text) :]


def strip_all(text: str) -> str:
    """Return assistant text as it is to be persisted: no notation anywhere, no ``§`` left, trimmed."""
    text = strip_echo(text)
    for shape in (_MALFORMED_ANY, _WELL_ANY, _DANGLING_ANY):  # a malformed shape may end in a well-formed one
        text = shape.sub("", text)
    return text.replace("§", "").strip()

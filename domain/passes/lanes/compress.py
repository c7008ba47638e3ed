"""A text in fewer words, at three depths; code, links, paths and names stay to the letter (``transform.md`` 4.7)."""

from __future__ import annotations

import re
from collections.abc import Sequence

FILLER = (
    *"just really basically actually essentially simply clearly obviously quite very somewhat rather fairly".split(),
    "sort of",
    "kind of",
    "a bit",
)
HEDGES = (
    *("i " + word for word in "think believe feel suppose guess".split()),
    *"probably perhaps maybe arguably".split(),
    "it seems",
    "it appears",
)
PLEASANTRIES = ("please", "thanks", "thank you", "kindly", "if possible")
PHRASES = (
    ("in order to", "to"),
    ("due to the fact that", "because"),
    ("at this point in time", "now"),
    ("at the moment", "now"),
    ("in the event that", "if"),
    ("for the purpose of", "for"),
    ("with regard to", "about"),
    ("in spite of the fact that", "though"),
    ("on the grounds that", "because"),
    ("for the reason that", "because"),
)
AUXILIARIES = (
    "is are was were be been being has have had will would shall should may might must can could do does did".split()
)
CONNECTIVES = (
    ("and then", "→"),
    ("then after", "→"),
    ("afterwards", "→"),
    ("therefore", "→"),
    ("because of", "//"),
    ("because", "//"),
    ("however", "but"),
    ("furthermore", "+"),
    ("additionally", "+"),
    ("as well as", "+"),
)
SHORT = {
    "context": "ctx",
    "message": "msg",
    "messages": "msgs",
    "session": "ses",
    "config": "cfg",
    "configuration": "cfg",
    "implementation": "impl",
    "implemented": "impl",
    "repository": "repo",
    "database": "db",
    "directory": "dir",
    "historian": "hist",
    "compartment": "cmpt",
    "compartments": "cmpts",
    "compressor": "cmp",
    "compression": "cmp",
}
OFTEN = 3
"""A term is abbreviated where it stands at least this often."""
KEPT = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]+`|https?://\S+|§\d+§|\b(?:msg|ses|toolu)_\w+"
    r"|[\w.~-]*/[\w./~-]*\w|\b[\w-]+\.[A-Za-z][A-Za-z0-9]{0,4}\b|\b[0-9a-f]{7,40}\b",
    re.DOTALL,
)
"""What is carried over to the letter: code, links, numbers of parts, ids, paths, hashes."""
_QUOTED = re.compile(r"^U: [^\n]*", re.MULTILINE)
"""Lines that quote a person."""
_HOLE = "\x00{}\x00"


def compress(text: str, depth: int) -> str:
    """Return ``text`` in fewer words. ``depth``: 1 fewer fillers, 2 no articles and auxiliaries, 3 signs for words."""
    if "\x00" in text:
        return text  # the sign for what is carried over stands in it
    kept: list[str] = []

    def take(found: re.Match[str]) -> str:
        kept.append(found[0])
        return _HOLE.format(len(kept) - 1)

    body = KEPT.sub(take, _QUOTED.sub(take, text))
    for step in _STEPS[:depth]:
        body = step(body)
    body = re.sub(r"[ \t]+", " ", body)
    body = re.sub(r" *\n", "\n", body)
    body = re.sub(r"\n{3,}", "\n\n", body).strip()
    for index in range(len(kept) - 1, -1, -1):
        body = body.replace(_HOLE.format(index), kept[index])
    return body


def _any(words: Sequence[str]) -> str:
    return r"\b(?:" + "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)) + r")\b"


def _lite(text: str) -> str:
    text = re.sub(_any([*FILLER, *HEDGES, *PLEASANTRIES]) + r",?[ \t]?", "", text, flags=re.IGNORECASE)
    for phrase, word in PHRASES:
        text = re.sub(_any([phrase]), word, text, flags=re.IGNORECASE)
    return text


def _full(text: str) -> str:
    text = re.sub(_any(AUXILIARIES) + r"[ \t]+(?=\w+(?:ed|en|ing|ized|ised)\b)", "", text, flags=re.IGNORECASE)
    return re.sub(r"\b(?:the|a|an)\b[ \t]+", "", text, flags=re.IGNORECASE)


def _ultra(text: str) -> str:
    for phrase, sign in CONNECTIVES:
        text = re.sub(_any([phrase]), sign, text, flags=re.IGNORECASE)
    text = text.replace(" and ", " + ").replace(" or ", " | ")
    for word, short in SHORT.items():
        found = re.compile(rf"\b{word}\b", re.IGNORECASE)
        if len(found.findall(text)) >= OFTEN:
            text = found.sub(lambda m, short=short: short.capitalize() if m[0][0].isupper() else short, text)  # type: ignore[misc]
    return text


_STEPS = (_lite, _full, _ultra)

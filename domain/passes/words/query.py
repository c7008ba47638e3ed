"""What a person's words are looked up by: without what hosts, other programs and foldlog itself put into them."""

from __future__ import annotations

import re

from ..lanes.injected import stripped

DROPPED = ("system-reminder", "ctx-search-hint", "ctx-search-auto", "sidekick-augmentation", "instruction")
"""Blocks that go with all they hold (``knowledge.md`` 5.6); of other tags what they hold stays."""
STACKED = ("<ctx-search-hint", "<ctx-search-auto", "<sidekick-augmentation")
"""What says that something was looked up for these words already."""
_TAG = re.compile(r"<(/?)([A-Za-z][\w.:-]*)(?:\s[^<>]*)?/?>")
_NUMBER = re.compile(r"§[0-9]+§")
LOOKED = 1 << 18
"""Characters of a message that are looked at."""
BYTES, TOKENS, ATOMS = 16 * 1024, 512, 64
"""Most of a query: bytes, tokens (four bytes each, about), words."""


def stacked(text: str) -> bool:
    """Whether a hint, or the like of another program, stands in a text already."""
    low = text[:LOOKED].lower()
    return any(mark in low for mark in STACKED)


def plain_words(text: str) -> str:
    """Return what a person said in a message: no markup, each run of white space one blank."""
    text = _without_comments(stripped(text[:LOOKED]))
    return " ".join(_NUMBER.sub(" ", _without_tags(text)).split())


def query(said: str) -> str:
    """Return the words to look up by: the first of what was said, as many as a query holds."""
    atoms = said[:BYTES].split()[:ATOMS]
    limit = min(BYTES, TOKENS * 4)
    return " ".join(atoms).encode("utf-8", "replace")[:limit].decode("utf-8", "ignore").strip()


def _without_comments(text: str) -> str:
    """Return a text without comments. Searched for, not matched: many unclosed ones would be read again and again."""
    kept, at = [], 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        kept.append(text[at:start])
        at = end + 3
    return " ".join([*kept, text[at:].replace("<!--", " ")])


def _without_tags(text: str) -> str:
    """Return a text without tags; a block of ``DROPPED`` goes whole where it is closed."""
    kept: list[str] = []
    begun: list[tuple[str, int]] = []  # blocks not closed yet, and how much was kept before each
    counts = dict.fromkeys(DROPPED, 0)
    at = 0
    for tag in _TAG.finditer(text):
        kept.append(text[at : tag.start()])
        at = tag.end()
        name = tag[2].lower()
        if name not in DROPPED:
            continue
        if not tag[1]:
            begun.append((name, len(kept)))
            counts[name] += 1
        elif counts[name]:
            other, place = "", 0
            while other != name:
                other, place = begun.pop()
                counts[other] -= 1
            del kept[place:]
    return " ".join([*kept, text[at:]])

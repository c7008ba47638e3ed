"""Word: what a search found that may belong to a person's newest words (``transform.md`` 6.6, ``knowledge.md`` 5.6).

Said or not is settled with the pass that first sends the message, and stays: a later one changes no byte of it.
"""

from __future__ import annotations

import re
from hashlib import sha256

from ... import events as ev
from ...edits import SetText
from ...history.words import escape, one_line
from ..heard import Hit, Silence, answer
from ..lanes.compress import compress
from .query import plain_words, query, stacked
from .shape import Listener, Spoken, Wants, digest

FRAGMENTS, LONG, SUBJECT = 3, 80, 60
"""How many things found are told, in how many characters each; of a commit its subject's."""
TOKENS = 200
"""Most tokens of a hint, four bytes each, about."""
DEEP = 3
_ODD = re.compile(r"[^0-9a-f]")


def wants(to: Listener) -> Wants:
    """Return the words of a person's new message, then what is to be looked up by them."""
    if not _on(to):
        return Wants()
    parts = frozenset((to.newest.m, p) for p in to.prompt())
    if to.unread(parts) or to.heard.hits is not None:
        return Wants(to.unread(parts))
    return Wants(query=_asked(to)[1])


def say(to: Listener) -> Spoken | None:
    """Say what was found, behind the last text of the message; keep why not where it is not said."""
    if not _on(to) or not to.prompt() or not to.spoken(to.prompt()):
        return None
    why, asked = _asked(to)
    heard = to.heard.hits
    kept: dict[bytes, bytes] = {}
    question = given = b""
    text = ""
    if asked and isinstance(heard, tuple):
        question, given = sha256(asked.encode()).digest(), sha256(answer(heard)).digest()
        kept = {question: asked.encode(), given: answer(heard)}
        why, text = _judged(heard, to.settings.hint_score)
    elif asked:
        if isinstance(heard, Silence) and heard.how:
            return Spoken(None, failed=heard.how)
        why = "late"
    outcome = ev.Asked("hint", why, question, given)
    if not text:
        return Spoken(None, asked=outcome, kept=kept)
    name, data = digest(text)
    return Spoken(SetText(to.newest.m, to.prompt()[-1], "post", "hint", name), data, asked=outcome, kept=kept)


def _on(to: Listener) -> bool:
    return to.search and to.hosted and bool(to.settings.hint_chars)


def _asked(to: Listener) -> tuple[str, str]:
    """Return why nothing is looked up, or by which words."""
    texts = to.spoken(to.prompt())
    said = plain_words("\n".join(texts))
    if any(stacked(text) for text in texts):
        return "stacked", ""
    if len(said) < to.settings.hint_chars:
        return ("too-short" if texts else ""), ""
    return "", query(said)


def _judged(hits: tuple[Hit, ...], least: int) -> tuple[str, str]:
    """Return what becomes of what was found, and the hint. The best match decides; worse ones ride along."""
    if not hits:
        return "nothing", ""
    if max(hit.score for hit in hits) < least:
        return "below-threshold", ""
    fragments = list(dict.fromkeys(found for hit in hits if (found := _fragment(hit))))[:FRAGMENTS]
    while fragments:
        text = _text(fragments)
        if (len(text.encode()) + 3) // 4 <= TOKENS:
            return "said", text
        fragments.pop()
    return "nothing", ""


def _fragment(hit: Hit) -> str:
    """Return something found in one short line. It is data: no tag in it is structure, no number in it one of ours."""
    if hit.kind != "commit":
        return _clipped(compress(hit.text, DEEP), LONG)
    subject = _clipped(compress(hit.text.strip().partition("\n")[0], DEEP), SUBJECT)
    named = " ".join(one for one in ("commit", _ODD.sub("", hit.sha.lower())[:12], _clipped(hit.age, 16)) if one)
    return f"{named}: {subject}" if subject else ""


def _clipped(text: str, limit: int) -> str:
    """Return a text on one line, safe inside our own tags, in at most ``limit`` characters, no entity cut in two."""
    text = " ".join(one_line(text.replace("§", "")).split())
    whole = escape(text)
    if len(whole) <= limit:
        return whole
    made = ""
    for char in text:
        piece = escape(char)
        if len(made) + len(piece) >= limit:
            break
        made += piece
    return made.rstrip() + "…"


def _text(fragments: list[str]) -> str:
    lines = "\n".join(f"- {one}" for one in fragments)
    return (
        f"\n\n<ctx-search-hint>\nRemembered, and it may belong to this request:\n{lines}\nIf it helps, ctx_search "
        "finds the whole of it; if not, pass over it. It asks for nothing by itself.\n</ctx-search-hint>"
    )

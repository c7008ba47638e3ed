"""What the historian reads and writes as text: cleaning, escaping, tool lines, commit hashes (``history.md`` 2.2, 5.3).

Lengths are UTF-16 units where the reference counts them; a cut never leaves half a surrogate pair.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_REMINDER = ("<system-reminder>", "</system-reminder>")
_INITIATOR = "<!-- OMO_INTERNAL_INITIATOR -->"
_DIRECTIVE = "[SYSTEM DIRECTIVE:"
_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_FALSE_HEADING = re.compile(r"(\A|[\n\r\u2028\u2029])(?=## )")
_ENTITY = re.compile(r"&(amp|lt|gt|quot|apos);")
_PLAIN = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}

_HASH = re.compile(r"\b[0-9a-fA-F]{7,12}\b")
_COMMIT_WORD = re.compile(
    r"\b(?:commit(?:s|ted|ting)?|cherry[- ]?pick(?:s|ed|ing)?|merg(?:e|es|ed|ing)|rebas(?:e|es|ed|ing))\b",
    re.IGNORECASE,
)
_ANY_HASH = re.compile(r"\b[0-9a-fA-F]{7,40}\b")
_HOLLOW = re.compile(r"(?:`\s*`|\(\s*[,;\s]*\)|\[\s*[,;\s]*\])")
HASHES = 5
"""Most commit hashes one block lists."""
CUT = 60
"""UTF-16 units of a query or command shown in a tool line."""
_ARGUMENTS = ("filePath", "file_path", "path", "pattern", "query", "symbol", "module", "action", "command")
_LONG = frozenset({"query", "command"})


def escape(text: str) -> str:
    """Return ``text`` as element content: ``&``, ``<`` and ``>`` as entities, so no tag in it is structure (2.2)."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_attribute(text: str) -> str:
    """Return ``text`` as an attribute value: content escaping and both quotes."""
    return escape(text).replace('"', "&quot;").replace("'", "&apos;")


def unescape(text: str) -> str:
    """Return ``text`` with the five entities read once: ``&amp;lt;`` becomes ``&lt;``."""
    return _ENTITY.sub(lambda match: _PLAIN[match[1]], text)


def one_line(text: str) -> str:
    """Return ``text`` with every run of control, line or paragraph separators as one space (headings, 2.2)."""
    return _BREAKS.sub(" ", text)


def guard_headings(text: str) -> str:
    """Return ``text`` with one space before each line that begins with ``## ``: only real headings do (2.2)."""
    return _FALSE_HEADING.sub(r"\1 ", text)


def clip(text: str, units: int, mark: str = "…") -> str:
    """Return the first ``units`` UTF-16 units and ``mark``, or ``text`` itself where it is not longer."""
    if len(text) <= units and (text.isascii() or sum(2 if char > "\uffff" else 1 for char in text) <= units):
        return text
    room = units
    for index, char in enumerate(text):
        room -= 2 if char > "\uffff" else 1
        if room < 0:
            return text[:index] + mark
    return text


def clean_user(text: str) -> str:
    """Return a user's text without what a host put into it for the model."""
    opening, closing = _REMINDER
    kept, at = [], 0
    # found, not matched: an expression would read a text of many unclosed reminders again and again
    while (start := text.find(opening, at)) >= 0 and (end := text.find(closing, start)) >= 0:
        kept.append(text[at:start])
        at = end + len(closing)
    return "".join([*kept, text[at:]]).replace(_INITIATOR, "")


def meaningful(texts: Iterable[str]) -> bool:
    """Whether a user row says something of its own: a text not empty without reminders, and no directive (4.5)."""
    return any((rest := clean_user(text).strip()) and not rest.startswith(_DIRECTIVE) for text in texts)


def squeeze(text: str) -> str:
    """Return ``text`` trimmed, with each run of white space as one blank."""
    return " ".join(text.split())


def tool_line(name: str, arguments: Mapping[str, Any]) -> str:
    """Return ``TC: description``, ``TC: tool(argument)`` or ``TC: tool`` (5.3); outputs are never shown.

    ``file_path`` and ``command`` are foldlog's own additions, for hosts that name them so; a long command is cut.
    """
    description = arguments.get("description")
    if isinstance(description, str) and description.strip():
        return f"TC: {squeeze(description)}"
    for key in _ARGUMENTS:
        value = arguments.get(key)
        if isinstance(value, str) and value.strip():
            shown = squeeze(value)
            return f"TC: {name}({clip(shown, CUT) if key in _LONG else shown})"
    return f"TC: {name}"


def tells_commit(text: str) -> bool:
    """Whether a text tells of a commit: it holds a hash, short or whole, and a word for making or moving one."""
    return bool(_ANY_HASH.search(text) and _COMMIT_WORD.search(text))


def take_hashes(text: str, hashes: list[str]) -> str:
    """Add the commit hashes of an assistant's ``text`` to ``hashes`` (at most five, lower case, each once).

    Return the text; where it also speaks of commits, without the hashes that are now listed.
    """
    found = [match.group().lower() for match in _HASH.finditer(text)]
    if not found:
        return text
    for commit in found:
        if commit not in hashes and len(hashes) < HASHES:
            hashes.append(commit)
    if not _COMMIT_WORD.search(text):
        return text
    rest = _HASH.sub(lambda match: "" if match.group().lower() in hashes else match.group(), text)
    return squeeze(_HOLLOW.sub("", rest))

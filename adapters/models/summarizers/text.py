"""Text as a summary needs it: one line, clipped, without pasted matter; and what a person really said."""

from __future__ import annotations

import re

import msgspec

LINE = 240
"""The longest user line or sentence kept word for word, in characters."""
SCANNED = 24_000
"""Of a longer text only the first and last this many characters are searched for patterns."""
_PASTED = 14
"""A message of more lines than this holds pasted matter: of it only its head and the lines that bind are kept."""

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_SPACE = re.compile(r"\s+")
_SENTENCE = re.compile(r"(?<=[.!?])[)\"'`*]*\s+(?=[\"'`(*\[]?[A-Z0-9`])")
_HOST = re.compile(
    r"\s*(?:<(?:local-command|command-(?:name|message|args)|bash-(?:input|stdout|stderr)"
    r"|user-prompt-submit-hook|task-notification)"
    r"|Caveat: The messages below|\[Request interrupted by user|Base directory for this skill:"
    r"|This session is being continued from a previous)"
)
_SAID = re.compile(r"(?:the user said|user (?:feedback|comment|reason)):\s*", re.IGNORECASE)
_NUMBERED = re.compile(r"\A\d{1,2}[.)] +")
_TAG = re.compile(r"</?[A-Za-z][\w-]*>\Z")
_PASTE_LINE = re.compile(
    r"[+|>]|-(?! )|@@ |#+ |\d{4}-\d\d-\d\d[ T]"
    r"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\d"
    r"|[{}\[\]<]|at [\w.$<>]+ ?\(|File \"|\$ |❯|⏺|⎿|\w+:\d+:"
)
_BINDING = re.compile(
    r"\b(?:must|never|always|do(?:es)?n['’]?t|do not|not be|only|should(?:n['’]?t)?|instead|keep|prefere?"
    r"|without|make sure"
    r"|ensure|at (?:least|most)|no more than|needs? to|ha(?:ve|s) to|rather|avoid|leave|no longer|stop"
    r"|won['’]?t|can['’]?t|cannot"
    r"|required?|use|from now on)\b",
    re.IGNORECASE,
)
_ASSENT = frozenset(
    "yes yeah yep yup y ok okay k sure go ahead on continue proceed do it that this please thanks thank you great good "
    "perfect nice cool fine right correct exactly done no nope nah hm hmm ah lol and now next again it's looks lgtm "
    "sounds the".split()
)


class Line(msgspec.Struct, frozen=True):
    """A line of a person. ``binds``: it states a rule, wish or limit that holds beyond the moment."""

    text: str
    binds: bool


def one_line(text: str) -> str:
    """Return ``text`` on one line: control characters and runs of white space become one space, lone surrogates
    ``?``.
    """
    flat = _SPACE.sub(" ", _CONTROL.sub(" ", text)).strip()
    return flat if flat.isascii() else flat.encode("utf-8", "replace").decode()


def clip(text: str, size: int) -> str:
    """Return at most ``size`` characters, cut at a word where one ends in the last third, with ``…`` where cut."""
    if len(text) <= size:
        return text
    if size < 2:
        return text[: max(size, 0)]
    head = text[: size - 1]
    space = head.rfind(" ", size * 2 // 3)
    return (head[:space] if space > 0 else head).rstrip(" ,;:-(") + "…"


def ends(text: str) -> str:
    """Return the parts of a text that are searched: all of it, or its two ends."""
    return text if len(text) <= 2 * SCANNED else text[:SCANNED] + "\n" + text[-SCANNED:]


def sentences(text: str) -> list[str]:
    """Return the sentences and list items of a text in prose, each on one line; code blocks and headings are left
    out.
    """
    out: list[str] = []
    for line in _FENCE.sub("\n", ends(text)).replace("**", "").splitlines():
        bare = _NUMBERED.sub("", line.strip().lstrip("-+•>").removeprefix("* ").strip())
        if not bare or bare.startswith(("#", "|", "```")):
            continue
        out.extend(s for s in map(one_line, _SENTENCE.split(bare)) if s)
    return out


def said_in(output: str) -> str:
    """Return what a person wrote when turning a tool call down, from its result; empty where nothing was written."""
    if len(output) > 20_000:
        return ""
    found = _SAID.search(output)
    return output[found.end() :] if found else ""


def person(text: str) -> list[Line]:
    """Return what a person said, word for word on single lines: requests first in order, pasted matter left out.

    Text a host put into a user's message (reminders, command output, skill pages) is nobody's word. Assent and
    courtesy alone ("yes, go ahead") is left out too: it says nothing later.
    """
    text = ends(text)
    if "<system-reminder>" in text:
        text = _REMINDER.sub("", text)
    if _HOST.match(text):
        return []
    rows = [row.strip() for row in _FENCE.sub("\n", text).splitlines()]
    rows = [row for row in rows if row and not _TAG.match(row)]
    pasted = len(rows) > _PASTED
    out: list[Line] = []
    for row in rows:
        bare = row.lstrip("-*•").strip() if row[:2] in ("- ", "* ", "• ") else row
        if len(rows) > 1 and _PASTE_LINE.match(bare):
            continue
        flat = one_line(bare)
        pieces = [flat] if len(flat) <= LINE else [clip(s, LINE) for s in _SENTENCE.split(flat)]
        for piece in pieces:
            binds = _BINDING.search(piece) is not None and len(piece) >= 8
            if not any(map(str.isalnum, piece)) or assent(piece) or (piece.endswith(":") and not binds):
                continue
            if not pasted or binds or len(out) < 2:
                out.append(Line(piece, binds))
    return out


def assent(text: str) -> bool:
    """Return whether a line only agrees, thanks or tells to go on."""
    words = re.findall(r"[a-z']+", text.lower())
    return len(text) < 60 and bool(words) and all(word in _ASSENT for word in words)

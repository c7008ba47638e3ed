"""Reasoning a model writes into its answer's text, in tags of its own (``transform.md`` 4.4, THINK-7)."""

from __future__ import annotations

import re

_TAG = re.compile(r"<(?P<close>/)?think(?:ing)?>")
_MARK = re.compile(
    r"^[ \t>]*(?:[-*+][ \t]+|\d+[.)][ \t]+)?(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})"
    r"|(?P<ticks>`+)"
    r"|<(?P<close>/)?think(?:ing)?>",
    re.MULTILINE,
)
"""Where code begins, or a tag."""
_FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,})[ \t]*$", re.MULTILINE)
_TICKS = re.compile(r"(`+)|\n[ \t]*\n")
_WHITE = re.compile(r"\s*")


def without(text: str) -> str:
    """Return a text without closed blocks of reasoning and the white space behind them; the same object if it has none.

    Blocks inside one another are one. Code stays as it is, and so does all from a tag on that nothing closes: whether
    what follows it is reasoning or the answer cannot be told.
    """
    if "</think" not in text:
        return text
    kept: list[str] = []
    start = at = 0
    fresh = True  # whether all of the line before ``start`` is gone
    while mark := _MARK.search(text, at):
        if mark["fence"]:
            at = _behind_fence(text, mark.end(), mark["fence"])
        elif mark["ticks"]:
            at = _behind_ticks(text, mark.end(), mark["ticks"])
        elif mark["close"]:
            at = mark.end()
        else:
            end = _closed(text, mark.end())
            if end < 0:
                break
            before = text[start : mark.start()]
            line = before.rstrip(" \t")
            fresh = line.endswith("\n") or (fresh and not line)
            at = _behind(text, end, whole=fresh)
            kept.append(line if fresh and text[at - 1] == "\n" else before)
            start = at
    return "".join((*kept, text[start:])) if kept else text


def _closed(text: str, at: int) -> int:
    """Return where the block ends whose first tag ends at ``at``, -1 where nothing closes it."""
    depth = 1
    for tag in _TAG.finditer(text, at):
        depth += -1 if tag["close"] else 1
        if not depth:
            return tag.end()
    return -1


def _behind(text: str, end: int, *, whole: bool) -> int:
    """Return where the text goes on behind a block: on its line, else on the next that holds anything.

    ``whole``: the block began its line, so the line goes with it; else the line ends here as it did.
    """
    gap = text[end : _WHITE.match(text, end).end()]  # type: ignore[union-attr]  # it matches nothing too
    stop, line = end + len(gap), gap.rfind("\n")
    if line < 0 or stop == len(text):
        return stop
    return end + line + 1 if whole else end + len(gap) - len(gap.lstrip(" \t"))


def _behind_fence(text: str, at: int, fence: str) -> int:
    for end in _FENCE.finditer(text, at):
        if end[1].startswith(fence):
            return end.end()
    return len(text)


def _behind_ticks(text: str, at: int, ticks: str) -> int:
    """Return where a code span ends; ``at`` where its paragraph ends before it does: then it is none."""
    for found in _TICKS.finditer(text, at):
        if not found[1]:
            break
        if found[1] == ticks:
            return found.end()
    return at

"""The default summariser: no model, no network, no chance (issue 3). What it keeps and when is in
``specs/summaries.md``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from ....domain.errors import InputError
from . import split
from .digest import Digest, digest, root_of
from .evidence import Seen, arcs, read
from .port import Job, Summarised, Summary
from .text import clip, one_line
from .tiers import SHARE, grouped, tiers

TITLE = 80
"""Longest title, in characters."""

_WORK = re.compile(
    r"\b(?:fix|add|implement|create|write|build|merge|commit|push|move|rename|remove|delete|refactor|update"
    r"|upgrade|change|replace"
    r"|make|check|debug|investigate|find out|review|test|run|explain|summar\w+|document|optimi[sz]e|support"
    r"|port|migrate|roll ?back"
    r"|set ?up|install|release|deploy|convert|extract|split|clean|simplify|tackle|continue|need|want)\b",
    re.IGNORECASE,
)


class Extractive(msgspec.Struct, frozen=True):
    """Summarises by picking out requests, commits, files, commands, decisions and errors. ``count`` counts tokens.

    Equal jobs give equal summaries, in every process. No tokens are billed.
    """

    count: Callable[[str], int]

    @property
    def name(self) -> str:
        return "extractive"

    @property
    def free(self) -> bool:
        return True

    def __call__(self, job: Job) -> Summarised:
        """Return compartments that cover ``job.start..job.end`` without gap. Raises ``InputError`` for a range that is
        none.
        """
        if job.start > job.end or any(not job.start <= turn.position <= job.end for turn in job.turns):
            raise InputError(
                "a stretch to summarise must have its messages between its first and its last ordinal",
                value=(job.start, job.end),
                where="job",
            )
        turns = sorted(job.turns, key=lambda turn: turn.position)
        seen = read(turns)
        total = sum(one.size for one in seen)
        root = root_of(seen)
        ranges = split.cuts(seen, arcs(turns), job.limit_tokens)
        out: list[Summary] = []
        for number, (low, high) in enumerate(ranges):
            part = seen[low:high]
            start = part[0].position if number else job.start
            end = seen[high].position - 1 if number + 1 < len(ranges) else job.end
            tokens = job.limit_tokens * sum(one.size for one in part) // total if total else job.limit_tokens
            out.append(self._summary(part, root, start, end, tokens))
        return Summarised(tuple(out), "", 0, 0, self.name)

    def _summary(self, part: Sequence[Seen], root: str, start: int, end: int, tokens: int) -> Summary:
        found = digest(part, root)
        named = title(part, found)
        return Summary(start, end, named, tiers(found, named, tokens // SHARE, self.count), importance(found))


def title(part: Sequence[Seen], found: Digest) -> str:
    """Return what a compartment is about: what was asked, else committed, found, edited, run, said; at most 80
    characters.
    """
    heads = (next((line.text for line in one.lines if not line.text.endswith(":")), "") for one in part if one.asks)
    asked = [text for text in heads if text]
    telling = [text for text in asked if len(text.split()) >= 4]
    choices = (
        next((text for text in telling if _WORK.search(text)), next(iter(telling), "")),
        next((subject for _, subject in found.commits if subject), ""),
        found.best,
        "Edit " + ", ".join(grouped(found.edited)) if found.edited else "",
        next(iter(asked), ""),
        found.first,
        "Read " + ", ".join(grouped(found.looked)) if found.looked else "",
        "Run " + "; ".join(found.ran) if found.ran else "",
    )
    return clip(one_line(next(filter(None, choices), "Conversation")), TITLE)


def importance(found: Digest) -> int:
    """Return how slowly a compartment should fade, 1 to 100 (SUM-9 of ``specs/summaries.md``)."""
    binding = sum(line.binds for line in found.lines)
    value = 35
    value += min(8 + 4 * binding, 24) if binding else 0
    value += min(10 + 2 * len(found.commits), 20) if found.commits else 0
    value += min(2 * len(found.decided), 12)
    value += min(len(found.edited), 8)
    value += 4 if any(one.open for one in found.failed) else 0
    if not (binding or found.commits or found.edited):
        value -= 15
    return min(max(value, 1), 100)

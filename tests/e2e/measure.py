"""What a run shows: the provider's records beside the passes of foldlog's log."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from e2e.provider.record import Record

from foldlog import Engine
from foldlog.projections.timeline import Row, timeline

FOLDS = ("hard", "soft")
"""Passes that take a summary in: into m[0], or into m[1]. The first of a session is none."""
SLACK = 256
"""Tokens an automatic cache may miss at the end of a prefix: two of its steps."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of the main conversation beside the one before it and the pass that made it (None: no foldlog)."""

    record: Record
    before: Record | None
    row: Row | None

    @property
    def changed(self) -> bool:
        """Whether a byte of what the request before sent is different now."""
        return self.before is not None and self.record.shared < size(self.before)

    @property
    def missed(self) -> bool:
        """Whether the cache gave less than what both requests have in common."""
        return self.before is not None and self.record.read < size(self.before) - SLACK

    @property
    def cause(self) -> str:
        """Why the cache was not read up to the end of the request before, in the log's words; nothing where it was."""
        if self.before is None:
            return "first"
        if not self.missed:
            return ""
        if self.row is None:
            return "host"
        if self.row.divergence:
            return f"host: {self.row.divergence}"
        return " ".join((self.row.level, *self.row.reasons)) if self.row.level != "defer" else "unexplained"


@dataclass(frozen=True, slots=True)
class Measured:
    """A line of the table. ``share``: cache reads of all prompt tokens; ``between``: the same without the requests
    that begin, fold or compact. ``causes``: why the others did not read what was there.
    """

    steps: int
    folds: int
    share: float
    between: float
    causes: dict[str, int]


def size(record: Record) -> int:
    """Return the prompt's tokens, also of a request that was refused."""
    return sum(block[3] for block in record.blocks)


def rows(db: Path, which: str = "") -> list[Row]:
    """Return the passes of all streams whose name holds ``which``, in the order they were made."""
    found: list[Row] = []
    with Engine.open(f"sqlite:///{db}", summarizer=None) as engine:
        for stream, _ in engine.sessions():
            if which in stream:
                found += timeline(engine.log, engine.find(stream))
    return sorted(found, key=lambda row: row.at)


def streams(db: Path) -> list[str]:
    """Return the names of all sessions in the store."""
    with Engine.open(f"sqlite:///{db}", summarizer=None) as engine:
        return [stream for stream, _ in engine.sessions()]


def main(records: list[Record], passes: list[Row] | None = None, conversation: str = "") -> list[Asked]:
    """Return the answered requests of the main track, each with the one before and the pass that made it: the newest
    one older than it, or a rebuild since the request before, whose own request never went out.
    """
    found: list[Asked] = []
    told = 0
    for each in _answered(records, conversation):
        made = [row for row in passes or () if row.at <= each.at * 1000 + 1]
        unsent = [row for row in made[told:] if row.level != "defer"]  # of a host killed before it could send it
        told = len(made)
        found.append(_asked(records, each, (unsent or made or [None])[-1]))
    return found


def by_count(records: list[Record], passes: list[Row]) -> list[Asked]:
    """Return the answered requests of the main track, each with the pass that was told the same count of tokens.

    For runs too quick for the clock; passes of other tracks are left out by it.
    """
    found: list[Asked] = []
    left = sorted(passes, key=lambda row: (row.at, row.number))
    for each in _answered(records, ""):
        fits = next((row for row in left if row.prompt == each.total), None)
        if fits is not None:
            left.remove(fits)
        found.append(_asked(records, each, fits))
    return found


def _answered(records: list[Record], conversation: str) -> list[Record]:
    return [
        each
        for each in records
        if each.kind == "step" and each.track == "main" and each.status == 200 and each.failure != "overflow"
        if conversation in each.conversation
    ]


def _asked(records: list[Record], each: Record, row: Row | None) -> Asked:
    return Asked(each, next((other for other in records if other.n == each.before), None), row)


def measured(asked: list[Asked], records: list[Record]) -> Measured:
    """Return the table's line for a run."""
    quiet = [each for each in asked if each.before is not None and not each.changed]
    folds = len({(each.row.number, each.row.level) for each in asked if each.row and each.row.level in FOLDS}) - 1
    if asked and asked[0].row is None:
        folds = sum(each.kind == "summary" for each in records)
    causes = Counter(each.cause for each in asked if each.cause)
    return Measured(
        steps=len(asked),
        folds=folds,
        share=_share([each.record for each in asked]),
        between=_share([each.record for each in quiet]),
        causes=dict(causes),
    )


def _share(records: list[Record]) -> float:
    total = sum(each.total for each in records)
    return sum(each.read for each in records) / total if total else 0.0

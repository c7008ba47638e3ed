"""The bill: what a session's requests cost under a cache profile, reckoned from its wire log alone.

One function for every arm. Costs are in units of one uncached input token.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from .profiles import Profile
from .provider import Provider, Usage
from .records import MAIN, REFUSED, Block, Record

FIRST = "first request"
GROWTH = "growth"
LEVELS = ("hard", "soft", "soft+", "defer")


class Sums(msgspec.Struct, frozen=True):
    """Tokens and what they cost. ``read + first + rewritten + uncached`` is the prompt.

    ``first``: written for the first time. ``rewritten``: the session's cache had held them before, and they were paid
    for again; ``resent`` of them were not even written but sent at the price of input. ``uncached``: never held, not
    written.
    """

    read: int = 0
    first: int = 0
    rewritten: int = 0
    resent: int = 0
    uncached: int = 0
    output: int = 0
    cost: float = 0.0

    @property
    def prompt(self) -> int:
        """Return the tokens of the prompt."""
        return self.read + self.first + self.rewritten + self.uncached


class Line(msgspec.Struct, frozen=True):
    """One record's share. ``index``: its place in the log; ``number``: of the session's own requests, from 1.

    An added call has the number of the request it came before. ``prompt``: its tokens, of a refused one too, whose
    ``sums`` are empty.
    """

    index: int
    number: int
    at: int
    kind: str
    level: str
    cause: str
    prompt: int
    sums: Sums


class Row(msgspec.Struct, frozen=True):
    """All requests of one level and cause; added calls have their kind as level."""

    level: str
    cause: str
    requests: int
    busts: int
    sums: Sums


class Bust(msgspec.Struct, frozen=True):
    """A request that paid again for ``tokens`` which the session's cache had held."""

    index: int
    number: int
    at: int
    level: str
    cause: str
    tokens: int


class Bill(msgspec.Struct, frozen=True):
    """What an arm cost. ``added`` is the part of ``total`` that is not the session's own requests."""

    profile: str
    total: Sums
    added: Sums
    added_calls: int
    requests: int
    refusals: int
    largest_prompt: int
    rows: tuple[Row, ...]
    busts: tuple[Bust, ...]
    lines: tuple[Line, ...]

    @property
    def cost(self) -> float:
        """Return the whole cost in units of an uncached input token."""
        return self.total.cost


class _Held(msgspec.Struct):
    """What a session's cache has held: per block content and occurrence in a prompt, tokens from its beginning.

    The second "ok" of a prompt is another content than the first: it is no rewrite when it comes.
    """

    tokens: dict[tuple[str, int], int] = {}
    paths: dict[str, _Seen] = {}


class _Seen(msgspec.Struct):
    """The last prompt of one kind: its blocks as (digest, occurrence), how far it was cached."""

    keys: list[tuple[str, int]] = []
    ends: list[int] = []
    counts: Counter[str] = msgspec.field(default_factory=Counter)
    settled: int = 0


def bill(records: Iterable[Record], profile: Profile) -> Bill:
    """Bill the records of a wire log, in the order they were sent, under one profile.

    Raises ``InputError`` for a record no provider would take.
    """
    provider = Provider(profile)
    sessions: dict[str, _Held] = {}
    lines: list[Line] = []
    busts: list[Bust] = []
    numbers: Counter[str] = Counter()
    largest = 0
    for index, record in enumerate(records):
        own = record.kind in (MAIN, REFUSED)
        numbers[record.session] += own
        number = numbers[record.session] if own else numbers[record.session] + 1
        if record.kind == REFUSED:
            cause = ", ".join(record.reasons) or REFUSED
            lines.append(Line(index, number, record.at, REFUSED, REFUSED, cause, record.tokens, Sums()))
            continue
        usage = provider.answer(record)
        held = sessions.setdefault(record.session, _Held())
        sums = _sums(usage, *_paid_again(held, record, usage), profile)
        level = record.level or "defer" if own else record.kind
        cause = _cause(record, usage, sums.rewritten)
        lines.append(Line(index, number, record.at, record.kind, level, cause, usage.prompt, sums))
        if sums.rewritten:
            busts.append(Bust(index, number, record.at, level, cause, sums.rewritten))
        if own:
            largest = max(largest, usage.prompt)
    added = [line.sums for line in lines if line.kind not in (MAIN, REFUSED)]
    return Bill(
        profile=profile.name,
        total=_add([line.sums for line in lines], profile),
        added=_add(added, profile),
        added_calls=len(added),
        requests=sum(line.kind == MAIN for line in lines),
        refusals=sum(line.kind == REFUSED for line in lines),
        largest_prompt=largest,
        rows=_rows(lines, profile),
        busts=tuple(busts),
        lines=tuple(lines),
    )


def _sums(usage: Usage, rewritten: int, resent: int, profile: Profile) -> Sums:
    return _priced(
        Sums(
            read=usage.read,
            first=usage.written - (rewritten - resent),
            rewritten=rewritten,
            resent=resent,
            uncached=usage.uncached - resent,
            output=usage.output,
        ),
        profile,
    )


def _priced(sums: Sums, profile: Profile) -> Sums:
    cost = (
        sums.read * profile.read
        + (sums.first + sums.rewritten - sums.resent) * profile.write
        + sums.uncached
        + sums.resent
        + sums.output * profile.output
    )
    return msgspec.structs.replace(sums, cost=cost)


def _add(given: Iterable[Sums], profile: Profile) -> Sums:
    """Add up; the cost is taken from the whole numbers, so that no order of adding shows in it."""
    read = first = rewritten = resent = uncached = output = 0
    for one in given:
        read += one.read
        first += one.first
        rewritten += one.rewritten
        resent += one.resent
        uncached += one.uncached
        output += one.output
    return _priced(Sums(read, first, rewritten, resent, uncached, output), profile)


def _paid_again(held: _Held, record: Record, usage: Usage) -> tuple[int, int]:
    """Return the tokens of this prompt that the cache had held and did not serve: all, and those not even written."""
    seen = held.paths.setdefault(record.kind, _Seen())
    _follow(seen, record.blocks, usage.kept)
    rewritten = resent = 0
    # blocks before this point were cached whole by the request before and begin this prompt too
    start = min(seen.settled, usage.kept)
    if usage.read < (seen.ends[start - 1] if start else 0):
        start = 0
    known, keys, ends = held.tokens, seen.keys, seen.ends
    begin = ends[start - 1] if start else 0
    settled = len(keys)
    for index in range(start, len(keys)):
        end = ends[index]
        key = keys[index]
        had = known.get(key, 0)
        if had and end > usage.read:
            again = min(end, begin + had) - max(begin, usage.read)
            if again > 0:
                rewritten += again
                resent += max(min(end, begin + had) - max(begin, usage.read, usage.cached), 0)
        cached = min(end, usage.cached) - begin
        if cached > had:
            known[key] = cached
        if end > usage.cached:
            settled = min(settled, index)
        begin = end
    seen.settled = settled
    if not usage.miss:  # nothing was lost: a text that comes a second time is new where it stands
        return 0, 0
    return rewritten, resent


def _follow(seen: _Seen, blocks: tuple[Block, ...], kept: int) -> None:
    keys, ends, counts = seen.keys, seen.ends, seen.counts
    for digest, _ in keys[kept:]:
        counts[digest] -= 1
    del keys[kept:], ends[kept:]
    end = ends[-1] if ends else 0
    for index in range(kept, len(blocks)):
        digest, _, tokens = blocks[index]
        keys.append((digest, counts[digest]))
        counts[digest] += 1
        end += tokens
        ends.append(end)


def _cause(record: Record, usage: Usage, rewritten: int) -> str:
    """Name the cause: what the provider lost by itself first, then what foldlog decided, then what the host did."""
    if record.kind != MAIN:
        return "added call"
    if usage.miss == "first":
        return FIRST
    if usage.miss == "expired":
        return "cache expired"
    if usage.miss == "model":
        return "model changed"
    if record.level not in ("", "defer"):
        return ", ".join(record.reasons) or "rebuild"
    if record.divergence is not None:
        return ", ".join(one for one in record.reasons if one.startswith("host_")) or "host changed the past"
    if not rewritten:
        return GROWTH
    return "no mark near enough" if usage.miss == "unfound" else "prefix changed"


def _rows(lines: Iterable[Line], profile: Profile) -> tuple[Row, ...]:
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line.level, line.cause), []).append(line)
    rows = [
        Row(
            level=level,
            cause=cause,
            requests=len(group),
            busts=sum(line.sums.rewritten > 0 for line in group),
            sums=_add([line.sums for line in group], profile),
        )
        for (level, cause), group in groups.items()
    ]
    order = {level: place for place, level in enumerate(LEVELS)}
    return tuple(sorted(rows, key=lambda row: (order.get(row.level, len(order)), row.level, -row.sums.cost, row.cause)))

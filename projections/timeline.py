"""The passes of a session as a table: what each was, why, how large, what landed, and what the provider said of it.

A walk over the events alone: no state, no bodies, so that listing a long session costs one reading of its log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from ..domain import events as ev
from ..domain.edits import TEXT_ORDER, SetText
from .fold import Source
from .request import level, reasons

LEVELS = ("hard", "soft", "soft+", "defer", "refused")
"""From the dearest pass to the one that sends nothing: the order of tables."""
QUIET = "quiet"
"""The cause of a pass that had none: it only carried what was new."""


class Lane(msgspec.Struct, frozen=True):
    """What a lane did on a pass, or (not ``landed``) would have done: things, tokens they free, their numbers."""

    lane: str
    landed: bool
    items: int
    tokens: int
    tags: tuple[tuple[int, int], ...]


class Row(msgspec.Struct, frozen=True):
    """One pass. Times in ms UTC (``now``: the host's clock), sizes in tokens, -1 = not reported.

    ``tokens``: our own count of the request; ``prompt`` and ``output``: the provider's. ``parts``: parts no earlier
    request held; ``landed``: drops. ``held``: queued drops could have landed and did not. ``outcome``: how it failed.
    ``lost``: of the request before, what the provider did not read from its cache though only the host changed
    something (``divergence``): the price of the host's own doing. ``lanes``: what each lane did, or would have done.
    ``left_out``: what broke and was not said to the agent; ``said``: what was, by kind; ``unsaid``: words that were due
    and were not said, each with why.
    """

    number: int
    version: int
    level: str
    reasons: tuple[str, ...]
    at: int
    now: int
    tokens: int
    parts: int = 0
    landed: int = 0
    held: bool = False
    percent: int = -1
    divergence: str = ""
    side: bool = False
    prompt: int = -1
    output: int = -1
    outcome: str = ""
    message: str = ""
    lost: int = -1
    lanes: tuple[Lane, ...] = ()
    left_out: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    unsaid: tuple[tuple[str, str], ...] = ()


def timeline(source: Source, stream: str) -> list[Row]:
    """Return the passes of a stream in order, refusals and replays included. Raises ``StoreDamaged``."""
    rows: list[Row] = []
    place: dict[int, int] = {}
    before = -1  # the newest prompt the provider counted, and so cached
    for stored in source.read(stream):
        event = stored.event
        if isinstance(event, ev.Pass | ev.PassRefused | ev.LastGoodReplayed):
            place[event.number] = len(rows)
            rows.append(_row(stored.version, event))
        elif isinstance(event, ev.UsageReported | ev.RequestOutcome | ev.OverflowReported):
            index = place.get(event.number)
            if index is not None:
                rows[index] = _answered(rows[index], event, before)
                if isinstance(event, ev.UsageReported) and not rows[index].side:
                    before = rows[index].prompt if rows[index].prompt >= 0 else before
    return rows


def _row(version: int, event: ev.Pass | ev.PassRefused | ev.LastGoodReplayed) -> Row:
    name, why = level(event), reasons(event)
    if isinstance(event, ev.PassRefused):
        return Row(event.number, version, name, why, event.at, event.now, event.tokens, message=event.message)
    if isinstance(event, ev.LastGoodReplayed):
        return Row(event.number, version, name, why, event.at, event.now, event.tokens, len(event.arrivals))
    decision, divergence = event.decision, event.divergence
    return Row(
        number=event.number,
        version=version,
        level=name,
        reasons=why,
        at=event.at,
        now=event.now,
        tokens=event.tokens,
        parts=sum(len(arrival.tags) for arrival in event.arrivals),
        landed=0 if isinstance(event, ev.PassDeferred) else len(event.landed),
        held=decision is not None and decision.held,
        percent=-1 if decision is None else decision.percent,
        divergence="" if divergence is None else divergence.cause,
        side=isinstance(event, ev.PassDeferred) and event.side is not None,
        lanes=() if decision is None else tuple(Lane(**msgspec.structs.asdict(did)) for did in decision.lanes),
        left_out=() if decision is None else decision.left_out,
        said=_said(event),
        unsaid=tuple((one.word, one.outcome) for one in (decision.asked if decision else ()) if one.outcome != "said"),
    )


def _said(event: ev.Pass) -> tuple[str, ...]:
    """Return what a pass says to the agent beside its content, in the order it is written."""
    texts = {e.kind for arrival in event.arrivals for e in arrival.edits if isinstance(e, SetText)}
    messages = ("appeal",) if any(insert.kind == "text" for insert in event.inserts) else ()
    return (*(kind for kind in TEXT_ORDER if kind in texts), *messages)


def _answered(row: Row, event: ev.UsageReported | ev.RequestOutcome | ev.OverflowReported, before: int) -> Row:
    replace = msgspec.structs.replace
    if isinstance(event, ev.RequestOutcome):
        return replace(row, outcome=event.outcome)
    if isinstance(event, ev.OverflowReported):
        return replace(row, outcome="overflow")
    counts = [count for count in (event.input, event.cache_read, event.cache_write) if count >= 0]
    changed = row.divergence and row.level == "defer" and not row.side
    lost = max(before - event.cache_read, 0) if changed and before >= 0 and event.cache_read >= 0 else -1
    return replace(row, prompt=sum(counts) if counts else -1, output=event.output, lost=lost)


class Cause(msgspec.Struct, frozen=True):
    """How many passes had one level and one cause."""

    level: str
    cause: str
    passes: int


def cause(why: Iterable[str]) -> str:
    """Return the reasons of a pass as one text; ``quiet`` where there was none."""
    return ", ".join(why) or QUIET


def causes(passes: Iterable[tuple[str, Iterable[str]]]) -> tuple[Cause, ...]:
    """Count (level, reasons) pairs; the dearest level first, within it the most frequent cause."""
    counted = Counter((name, cause(why)) for name, why in passes)
    order = {name: index for index, name in enumerate(LEVELS)}
    found = [Cause(name, why, count) for (name, why), count in counted.items()]
    return tuple(sorted(found, key=lambda one: (order.get(one.level, len(order)), -one.passes, one.cause)))

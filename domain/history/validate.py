"""Holds a summariser's draft against the chunk it read: heals what is safe, names the rest (``history.md`` 5.7, 5.9).

A failed check is a text, for a repair prompt and for a person; nothing here raises on a draft's account.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from .chunk import Chunk
from .parse import Draft, DraftCompartment, DraftEvent, Fact, Primer

LOOKAHEAD = 2
"""A last compartment that ends within so many positions of the chunk's end was written without seeing what follows."""


class Verdict(msgspec.Struct, frozen=True):
    """The healed compartments, in order, importance held to 1..100; or none, and ``error`` says why not.

    ``unprocessed``: the first position of the chunk that no compartment covers, chunk end + 1 where all are.
    """

    compartments: tuple[DraftCompartment, ...]
    unprocessed: int
    error: str = ""


class Result(msgspec.Struct, frozen=True):
    """What is to be published. Places of events and primers are 1-based in ``compartments``.

    ``discarded``: the last compartment was left out, to be read again.
    """

    compartments: tuple[DraftCompartment, ...]
    facts: tuple[Fact, ...]
    events: tuple[DraftEvent, ...]
    observations: tuple[str, ...]
    primers: tuple[Primer, ...]
    discarded: bool


def check(draft: Draft, chunk: Chunk) -> Verdict:
    """Return the draft's compartments as they may be stored, or the first thing wrong with them."""
    if not draft.compartments:
        return _wrong("there is no compartment in the output; write one or more, each with start, end and title")
    healed = _heal_gaps(list(draft.compartments), chunk.tool_only)
    unprocessed = draft.unprocessed
    swallowed = _heal_arcs(healed, chunk)
    if swallowed is not None:
        return _wrong(
            f"compartment {swallowed.start}-{swallowed.end} ends between a tool call and its result, and so does the "
            "message behind it; a call and its result belong into one compartment"
        )
    last = healed[-1]
    if unprocessed is not None and last.end != draft.compartments[-1].end:
        unprocessed = last.end + 1
    error = _contiguous(healed, chunk) or _coverage(last.end, unprocessed, chunk)
    if error:
        return _wrong(error)
    kept = tuple(msgspec.structs.replace(one, importance=min(100, max(1, one.importance))) for one in healed)
    return Verdict(kept, last.end + 1)


def discardable(compartments: Sequence[DraftCompartment], chunk: Chunk) -> bool:
    """Whether the last compartment had no lookahead, so that it is better read again with more context (5.9)."""
    return (
        len(compartments) >= 2
        and chunk.end - compartments[-1].end <= LOOKAHEAD
        and not any(first <= compartments[-2].end < end for first, end in chunk.arcs)
    )


def finish(draft: Draft, verdict: Verdict, chunk: Chunk, *, keep_last: bool = False) -> Result:
    """Return what of a valid draft is published. ``keep_last``: emergency recovery, or a wrap-up's final chunk.

    Facts, observations and primers are left out where the last compartment was discarded or kept only by ``keep_last``,
    for they are tied to no range; events go with their compartment.
    """
    weak = discardable(verdict.compartments, chunk)
    discarded = weak and not keep_last
    kept = verdict.compartments[:-1] if discarded else verdict.compartments
    place = {one.index: number for number, one in enumerate(kept, 1)}
    events = (msgspec.structs.replace(one, at=place[one.at]) for one in draft.events if one.at in place)
    primers = (msgspec.structs.replace(one, at=place.get(one.at, 0)) for one in draft.primers)
    return Result(
        compartments=kept,
        facts=() if weak else draft.facts,
        events=tuple(events),
        observations=() if weak else draft.observations,
        primers=() if weak else tuple(primers),
        discarded=discarded,
    )


def contiguous(ranges: Sequence[tuple[int, int]], start: int = 1) -> str:
    """Return what is wrong with stored compartments' (first, last) ranges, which must run on from ``start``; or ""."""
    expected = start
    for first, last in ranges:
        if first != expected:
            return f"{'overlap' if first < expected else 'gap'} at {first}-{last}: expected it to start at {expected}"
        if last < first:
            return f"{first}-{last} ends before it starts"
        expected = last + 1
    return ""


def _wrong(error: str) -> Verdict:
    return Verdict((), 0, error)


def _heal_gaps(found: list[DraftCompartment], tool_only: Sequence[tuple[int, int]]) -> list[DraftCompartment]:
    """Extend the earlier neighbour over a gap that lies whole in one tool-only range, and over no other (5.7, 2)."""
    for index in range(len(found) - 1):
        gap = (found[index].end + 1, found[index + 1].start - 1)
        if gap[0] <= gap[1] and any(first <= gap[0] and gap[1] <= last for first, last in tool_only):
            found[index] = msgspec.structs.replace(found[index], end=gap[1])
    return found


def _heal_arcs(found: list[DraftCompartment], chunk: Chunk) -> DraftCompartment | None:
    """Move ends that split a completed arc behind the arc; the next compartment then begins there (5.7, 3).

    Return a compartment that cannot be healed, since the next one lies in the same arc.
    """
    for index, one in enumerate(found):
        end = next((last for first, last in chunk.arcs if first <= one.end < last <= chunk.end), 0)
        if not end:
            continue
        follower = found[index + 1] if index + 1 < len(found) else None
        if follower is not None and follower.start == one.end + 1:
            if follower.end <= end:
                return one
            found[index + 1] = msgspec.structs.replace(follower, start=end + 1)
        elif follower is not None:
            continue  # a gap or an overlap: said as such
        found[index] = msgspec.structs.replace(one, end=end)
    return None


def _contiguous(found: Sequence[DraftCompartment], chunk: Chunk) -> str:
    expected = chunk.start
    for one in found:
        place = f"compartment {one.start}-{one.end}"
        if not one.p1.strip():
            return f"{place} has no text in p1; tier 1 must tell what happened"
        if one.end < one.start:
            return f"{place} ends before it starts"
        if one.start < chunk.start or one.end > chunk.end:
            return f"{place} reaches outside the messages {chunk.start}-{chunk.end} that were to be summarised"
        if one.start != expected:
            kind = "overlap" if one.start < expected else "gap"
            return f"{kind}: {place} must start at {expected}, so that each message is in exactly one compartment"
        expected = one.end + 1
    return ""


def _coverage(end: int, unprocessed: int | None, chunk: Chunk) -> str:
    if unprocessed is None or unprocessed == chunk.end + 1:
        if end == chunk.end:
            return ""
        return f"messages {end + 1}-{chunk.end} are in no compartment and not in unprocessed_from"
    if not chunk.start <= unprocessed <= chunk.end:
        return f"unprocessed_from {unprocessed} lies outside the messages {chunk.start}-{chunk.end}"
    if unprocessed != end + 1:
        return f"unprocessed_from {unprocessed} must be {end + 1}, the message behind the last compartment"
    return ""

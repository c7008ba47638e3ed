"""The two arms foldlog is compared with (conventions 26 and 27): wire logs of what would have been sent without it.

The engine does not import this module, and it knows nothing of the engine: it works on the blocks of the raw requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from ...domain.errors import OptionError
from .records import MAIN, REFUSED, Block, Record, made

CROSSING: Final = 95
"""*Compacting once*: per cent of the window a prompt may fill before everything gives way to a summary."""
SUMMARY: Final = 4_000
"""Tokens of that summary."""
MARKED: Final = 2
"""Blocks at the end of the system that the host marks."""


class Raw(msgspec.Struct, frozen=True):
    """One recorded request as its host would have sent it: ``blocks`` of all its messages, without system and tools."""

    at: int
    model: str
    blocks: tuple[Block, ...]
    output_tokens: int | None = None


def doing_nothing(session: str, requests: Sequence[Raw], *, window: int, front: Sequence[Block] = ()) -> list[Record]:
    """Send every request as recorded, never compacted; one above the window (tokens, 0 = unknown) is refused.

    ``front``: tools and system, in wire order. Raises ``OptionError`` for a negative window.
    """
    _check(window)
    lead = tuple(front)
    base = sum(block[2] for block in lead)
    records = []
    for raw in requests:
        fits = not window or base + _tokens(raw.blocks) <= window
        records.append(_record(session, raw, lead, raw.blocks, MAIN if fits else REFUSED))
    return records


def compacting_once(session: str, requests: Sequence[Raw], *, window: int, front: Sequence[Block] = ()) -> list[Record]:
    """Replace everything by one summary whenever a prompt would fill more than 95% of the window.

    Each time a call reads the whole prompt (as far as the window holds it) and writes the summary; the request then
    is the summary alone. Where system and summary alone fill as much, nothing is compacted, and what does not fit is
    refused. Raises ``OptionError`` for a window without a size.
    """
    _check(window)
    if not window:
        raise OptionError("compacting at a share of the window needs a window; give its size in tokens", value=window)
    lead = tuple(front)
    base = sum(block[2] for block in lead)
    records: list[Record] = []
    replaced: tuple[Block, ...] = ()
    summary: tuple[Block, ...] = ()
    made_so_far = 0
    helps = not _crosses(base + SUMMARY, window)  # else every request would be compacted, and none made smaller
    for raw in requests:
        count = len(replaced)
        if raw.blocks[:count] != replaced:  # the host went back behind the summary: it no longer stands for this past
            replaced, summary, count = (), (), 0
        sent = summary + raw.blocks[count:]
        compacted = helps and _crosses(base + _tokens(sent), window)
        if compacted:
            whole = _fitting(lead + sent, window)
            records.append(_call(session, raw, whole, min(len(lead), len(whole))))
            made_so_far += 1
            summary = (made(f"summary {made_so_far} of {session}", SUMMARY),)
            replaced, sent = raw.blocks, summary
        fits = base + _tokens(sent) <= window
        record = _record(session, raw, lead, sent, MAIN if fits else REFUSED)
        if compacted:
            record = msgspec.structs.replace(record, level="hard", reasons=("compaction",))
        records.append(record)
    return records


def _crosses(tokens: int, window: int) -> bool:
    return tokens * 100 > window * CROSSING


def _record(session: str, raw: Raw, lead: tuple[Block, ...], sent: tuple[Block, ...], kind: str) -> Record:
    blocks = lead + sent
    return Record(
        session=session,
        at=raw.at,
        model=raw.model,
        level="defer",
        blocks=blocks,
        breakpoints=_marks(len(lead), len(blocks)),
        output_tokens=raw.output_tokens,
        kind=kind,
        reasons=("above the window",) if kind == REFUSED else (),
    )


def _call(session: str, raw: Raw, blocks: tuple[Block, ...], lead: int) -> Record:
    return Record(
        session=session,
        at=raw.at,
        model=raw.model,
        level="",
        blocks=blocks,
        breakpoints=_marks(lead, len(blocks)),
        output_tokens=SUMMARY,
        kind="summary",
    )


def _marks(lead: int, blocks: int) -> tuple[int, ...]:
    """Return the host's marks: the last blocks of the system, and the last block."""
    marks = {*range(max(lead - MARKED, 0), lead)}
    if blocks:
        marks.add(blocks - 1)
    return tuple(sorted(marks))


def _fitting(blocks: tuple[Block, ...], window: int) -> tuple[Block, ...]:
    total = 0
    for index, block in enumerate(blocks):
        total += block[2]
        if total > window:
            return blocks[:index]
    return blocks


def _tokens(blocks: Sequence[Block]) -> int:
    return sum([block[2] for block in blocks])


def _check(window: int) -> None:
    if window < 0:
        raise OptionError("a window cannot be smaller than 0 tokens", value=window)

"""The condensed text a summariser reads: one line a block, tool outputs never shown (``history.md`` 5.3).

A chunk covers consecutive positions without a gap and ends where no completed tool arc is split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from ..errors import OptionError
from ..transcript import Role
from .boundary import find_arcs
from .words import clean_user, meaningful, squeeze, take_hashes, tool_line

CUT_MARK = "\n[… cut to fit the summariser's window …]"
_LETTERS: Mapping[str, str] = {"assistant": "A", "user": "U"}


class ToolUse(msgspec.Struct, frozen=True):
    """A tool call: its name, its arguments, its id. ``answered`` in another message only where its id is there."""

    name: str
    arguments: Mapping[str, Any]
    id: str = ""


class Turn(msgspec.Struct, frozen=True):
    """One message as the historian sees it.

    ``results``: ids of the tool results it holds. ``tied``: it may not be parted from the message before it.
    """

    position: int
    role: Role
    texts: tuple[str, ...] = ()
    calls: tuple[ToolUse, ...] = ()
    results: tuple[str, ...] = ()
    tied: bool = False


class Line(msgspec.Struct, frozen=True):
    """One line of chunk text, for positions ``first..last``. ``tool_only``: no message of it has text."""

    first: int
    last: int
    role: str
    text: str
    tool_only: bool


class Chunk(msgspec.Struct, frozen=True):
    """Positions ``start..end`` as text.

    ``tokens`` counts the whole text. ``has_more``: the range went on. ``clusters``: commit clusters. ``tool_only``:
    ranges whose messages hold tool parts and no text. ``arcs``: spans of completed tool arcs, overlapping ones joined;
    none of them crosses ``end``. Without ``lines`` the range is noise: nothing for a summariser to read.
    """

    text: str
    start: int
    end: int
    lines: tuple[Line, ...]
    tokens: int
    has_more: bool
    clusters: int
    tool_only: tuple[tuple[int, int], ...]
    arcs: tuple[tuple[int, int], ...]


class _Block(msgspec.Struct):
    """Consecutive messages of one role. ``plain``: a message of it has text."""

    first: int
    last: int
    role: str
    parts: list[str]
    hashes: list[str]
    plain: bool
    calls: set[str]

    def render(self) -> str:
        place = f"[{self.first}]" if self.first == self.last else f"[{self.first}-{self.last}]"
        commits = f"commits: {', '.join(self.hashes)} " if self.hashes else ""
        return f"{place} {self.role}: {commits}{' / '.join(self.parts)}".rstrip()


def build(turns: Sequence[Turn], budget: int, count: Callable[[str], int]) -> Chunk:
    """Return the chunk of ``turns`` (consecutive positions, at least one), as many blocks as ``budget`` tokens hold.

    The first block, or the first group of blocks tied by tool arcs, is taken whole however long it is; ``fit`` cuts
    its text. Raises ``OptionError`` where there are no turns or their positions are not consecutive.
    """
    if not turns or any(after.position != before.position + 1 for before, after in pairwise(turns)):
        raise OptionError("a chunk needs messages in consecutive positions", value=len(turns), where="turns")
    start, last = turns[0].position, turns[-1].position
    tied = [turn.position for turn in turns if turn.tied]
    arcs = find_arcs((([call.id for call in turn.calls if call.id], turn.results) for turn in turns), start, tied)
    blocks = _blocks(turns)
    taken: list[_Block] = []
    total, has_more = 0, False
    for block in blocks:
        cost = count(block.render()) + bool(taken)
        if taken and total + cost > budget:
            taken, has_more = _whole_arcs(taken, block, blocks, lambda end: arcs.crossing(end + 1) is not None)
            break
        total += cost
        taken.append(block)
    end = taken[-1].last if taken else last
    if taken and not has_more:
        end = taken[-1].last = last  # noise behind the last block goes with it
    lines = tuple(Line(block.first, block.last, block.role, block.render(), not block.plain) for block in taken)
    text = "\n".join(line.text for line in lines)
    return Chunk(
        text=text,
        start=start,
        end=end,
        lines=lines,
        tokens=count(text) if text else 0,
        has_more=has_more,
        # messages of one role merge, so the block before an A block is never another A block
        clusters=sum(block.role == "A" and bool(block.hashes) for block in taken),
        tool_only=_tool_ranges(turns, end),
        arcs=tuple(span for span in arcs.spans if span[1] <= end),
    )


def fit(text: str, budget: int, count: Callable[[str], int]) -> str:
    """Return ``text``, or its longest beginning that with a mark behind it counts at most ``budget`` tokens."""
    if count(text) <= budget:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle] + CUT_MARK) <= budget else (low, middle - 1)
    return text[:low] + CUT_MARK


def _whole_arcs(
    taken: list[_Block], following: _Block, rest: Iterator[_Block], splits: Callable[[int], bool]
) -> tuple[list[_Block], bool]:
    """Return the blocks to keep when ``following`` no longer fits, and whether others are left.

    Fewer than were taken, or where not even the first may end there, more: until no completed arc is split.
    """
    for keep in range(len(taken), 0, -1):
        if not splits(taken[keep - 1].last):
            return taken[:keep], True
    taken.append(following)
    for block in rest:
        if not splits(taken[-1].last):
            return taken, True
        taken.append(block)
    return taken, False


def _blocks(turns: Sequence[Turn]) -> Iterator[_Block]:
    """Yield the blocks. A row that only answers the open block's calls is its; other noise goes to the next block."""
    block: _Block | None = None
    noise = 0
    for turn in turns:
        role, parts, hashes, plain = _said(turn, block)
        if not parts and not hashes:
            if block and block.calls.intersection(turn.results):
                block.last, noise = turn.position, 0
            else:
                noise = noise or turn.position
            continue
        if block is None or block.role != role:
            if block is not None:
                yield block
            block = _Block(noise or turn.position, turn.position, role, [], [], False, set())
        block.last = turn.position
        block.parts += parts
        block.hashes += [commit for commit in hashes if commit not in block.hashes]
        block.plain = block.plain or plain
        block.calls.update(call.id for call in turn.calls if call.id)
        noise = 0
    if block is not None:
        yield block


def _said(turn: Turn, block: _Block | None) -> tuple[str, list[str], list[str], bool]:
    """Return (role letter, parts, new commit hashes, whether they are text) of one message."""
    role = _LETTERS.get(turn.role, turn.role[:1].upper())
    tools = [tool_line(call.name, call.arguments) for call in turn.calls]
    if turn.role == "tool":
        return "A", tools, [], False  # an answer to the assistant's call, as in hosts that keep both in one row
    texts = turn.texts
    if role == "U":
        texts = tuple(map(clean_user, texts)) if meaningful(texts) else ()
        role = "U" if texts else "A"
    texts = tuple(filter(None, map(squeeze, texts)))
    if not texts:
        return role, tools, [], False
    if role != "A":
        return role, list(texts), [], True
    # a block lists five hashes at most, so what earlier messages of it listed counts
    hashes = list(block.hashes) if block and block.role == "A" else []
    known = len(hashes)
    prose = [text for text in (take_hashes(text, hashes) for text in texts) if text]
    return role, prose, hashes[known:], True


def _tool_ranges(turns: Sequence[Turn], end: int) -> tuple[tuple[int, int], ...]:
    """Return the ranges up to ``end`` of messages that hold tool parts and say nothing."""
    ranges: list[tuple[int, int]] = []
    for turn in turns:
        if turn.position > end:
            break
        if _says(turn) or not (turn.calls or turn.results or turn.role == "tool"):
            continue
        if ranges and ranges[-1][1] == turn.position - 1:
            ranges[-1] = (ranges[-1][0], turn.position)
        else:
            ranges.append((turn.position, turn.position))
    return tuple(ranges)


def _says(turn: Turn) -> bool:
    if turn.role == "user":
        return meaningful(turn.texts)
    return turn.role != "tool" and any(map(str.strip, turn.texts))

"""What a provider would have counted for our request, from what it counted for the recorded one (``specs/cli.md``).

A recorded count is of the raw prompt: nothing dropped, but without what the host itself had compacted away. So it is
told as it stands while it applies, then less what foldlog removed; after a compaction our own count carries it on.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from ...domain.state import State
from ..traces.model import Usage

Source: TypeAlias = Literal["recorded", "reduced", "estimated", "none"]

FALL = 0.8
"""A prompt that falls below this share of the largest before it …"""
LEAST = 8_000
"""… and by at least this many tokens was compacted by its host: from there on it says nothing of the whole history."""
GROWN = 4_000
"""From this growth on (local tokens) the provider's count of a local token is taken from growth, not from the whole."""
LOW, HIGH = 300, 5_000
"""Bounds of that count in thousandths, the engine's own."""


class Told(msgspec.Struct, frozen=True):
    """What is reported for one request, and where it comes from. -1: not reported."""

    usage: Usage
    source: Source


class Meter(msgspec.Struct):
    """Follows a session's recorded counts. ``first`` and ``last``: (provider's tokens, undropped local tokens)."""

    first: tuple[int, int] | None = None
    last: tuple[int, int] | None = None
    largest: int = 0
    applies: bool = True

    def tell(self, recorded: Usage | None, ours: int, removed: int) -> Told | None:
        """Return what to report for a request of ``ours`` local tokens that lacks ``removed``; None: nothing is known.

        The sum of the prompt's figures is never below 0 and never above what the undropped prompt would have had.
        """
        whole = ours + removed
        total = prompt(recorded)
        if total is not None and self.applies:
            fallen = self.largest - total
            self.applies = not (total < self.largest * FALL and fallen >= LEAST)
            self.largest = max(self.largest, total)
        if total is not None and self.applies:
            self.first = self.first or (total, whole)
            self.last = (total, whole)
        output = -1 if recorded is None else recorded.output
        if self.last is None:
            return None if output < 0 else Told(Usage(output=output), "none")
        raw, source = total, "recorded"
        if total is None or not self.applies:
            raw, source = self.last[0] + self._provider(whole - self.last[1]), "estimated"
        assert raw is not None
        # the overhead no local count sees (tools, system) stays; never below the share that is left
        left = max(raw - self._provider(removed), raw * ours // max(whole, 1), 0)
        if source == "estimated":
            return Told(_split(recorded, left), "estimated")
        assert recorded is not None
        return Told(recorded, "recorded") if left >= raw else Told(_split(recorded, left), "reduced")

    def _provider(self, tokens: int) -> int:
        """Return local tokens in the provider's count."""
        if self.first is None or self.last is None:
            return tokens
        grown = self.last[1] - self.first[1]
        if grown >= GROWN:
            ratio = (self.last[0] - self.first[0]) * 1000 // grown
        else:
            ratio = self.last[0] * 1000 // max(self.last[1], 1)
        return tokens * min(max(ratio, LOW), HIGH) // 1000


class Whole(msgspec.Struct):
    """Follows what a request would hold with nothing removed. ``beside``: local tokens of it that no message has."""

    beside: int = 0
    path: int = 0
    end: int = 0
    raw: int = 0

    def removed(self, state: State, ours: int, freed: int) -> int:
        """Return the local tokens a request of ``ours`` lacks: those of drops (``freed``), or of all behind the cut."""
        going_on = 0 < self.path <= len(state.path) and state.path[self.path - 1] == self.end
        start = self.path if going_on else 0
        grown = sum(part.tokens for m in state.path[start:] for part in state.node(m).message.parts)
        self.raw = grown + (self.raw if going_on else 0)
        self.path, self.end = len(state.path), state.path[-1] if state.path else 0
        if not state.cut:
            self.beside = ours + freed - self.raw
            return freed
        return max(self.raw + self.beside - ours, 0)


def prompt(usage: Usage | None) -> int | None:
    """Return the prompt tokens a provider reported, None where it reported none."""
    if usage is None:
        return None
    parts = [count for count in (usage.input, usage.cache_read, usage.cache_write) if count >= 0]
    return sum(parts) if parts else None


def _split(recorded: Usage | None, total: int) -> Usage:
    """Return figures that sum to ``total``, new input and writes as recorded as far as they fit, the rest read.

    What was dropped is old, so it would have been read; a figure that was not reported stays so.
    """
    if recorded is None:
        return Usage(input=total)
    fresh = min(max(recorded.input, 0), total)
    write = min(max(recorded.cache_write, 0), total - fresh)
    rest = total - fresh - write
    if recorded.cache_read < 0:
        return Usage(fresh + rest, -1, write if recorded.cache_write >= 0 else -1, recorded.output)
    return Usage(
        fresh if recorded.input >= 0 else -1, rest, write if recorded.cache_write >= 0 else -1, recorded.output
    )

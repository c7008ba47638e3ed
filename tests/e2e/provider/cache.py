"""The providers' prompt caches, kept for real: a request reads what an earlier one wrote, or it reads nothing.

Sources: the providers' published rules as ``specs/billing.md`` states them: Anthropic caches what ends at a mark,
finds an entry at most 20 blocks before a mark, has a smallest prefix and a lifetime that each read renews; OpenAI
caches the longest equal prefix in steps of 128 tokens from 1,024 on.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from .blocks import Block, prefixes

LOOKBACK = 20
LIFETIMES = {"5m": 300.0, "1h": 3600.0}
OPENAI_LIFETIME = 600.0
STEP = 128
OPENAI_MINIMUM = 1024


@dataclass(frozen=True, slots=True)
class Billed:
    """Tokens of one request: read from the cache, written to it, and neither. Their sum is the prompt."""

    read: int
    write: int
    plain: int

    @property
    def total(self) -> int:
        """Return the size of the prompt."""
        return self.read + self.write + self.plain


@dataclass(slots=True)
class AnthropicCache:
    """Entries: (scope, digest of the prefix) -> (expiry, lifetime)."""

    minimum: int = 1024
    entries: dict[tuple[str, bytes], tuple[float, float]] = field(default_factory=dict)

    def bill(self, scope: str, blocks: list[Block], now: float) -> Billed:
        """Read what is there, write what is marked, and return the bill. ``scope``: the model, say."""
        digests = list(prefixes(blocks))
        sizes: list[int] = []
        total = 0
        for block in blocks:
            total += block.tokens
            sizes.append(total)
        hit = -1
        marked = [at for at, block in enumerate(blocks) if block.mark]
        for at in marked:
            for place in range(at, max(-1, at - LOOKBACK - 1), -1):
                known = self.entries.get((scope, digests[place]))
                if known and known[0] >= now:
                    hit = max(hit, place)
                    break
        if hit >= 0:
            lifetime = self.entries[scope, digests[hit]][1]
            self.entries[scope, digests[hit]] = (now + lifetime, lifetime)
        written = max((at for at in marked if sizes[at] >= self.minimum), default=-1)
        for at in marked:
            if sizes[at] >= self.minimum:
                lifetime = LIFETIMES[blocks[at].mark]
                self.entries[scope, digests[at]] = (now + lifetime, lifetime)
        read = sizes[hit] if hit >= 0 else 0
        write = max(0, sizes[written] - read) if written > hit else 0
        return Billed(read, write, total - read - write)


@dataclass(slots=True)
class OpenAICache:
    """Entries: (scope, digest of the first n * 128 tokens) -> expiry."""

    entries: dict[tuple[str, bytes], float] = field(default_factory=dict)

    def bill(self, scope: str, blocks: list[Block], now: float) -> Billed:
        """Read the longest equal prefix, remember this one. ``scope``: model and prompt cache key."""
        text = b"".join(block.role.encode() + b"\0" + block.data + b"\1" for block in blocks)
        running = hashlib.blake2b(digest_size=16)
        read = 0
        whole = len(text) // (4 * STEP)
        for step in range(1, whole + 1):
            running.update(text[(step - 1) * 4 * STEP : step * 4 * STEP])
            tokens = step * STEP
            if tokens < OPENAI_MINIMUM:
                continue
            key = (scope, running.copy().digest())
            if read in {0, tokens - STEP} and self.entries.get(key, 0.0) >= now and (read or tokens == OPENAI_MINIMUM):
                read = tokens
            self.entries[key] = now + OPENAI_LIFETIME
        total = (len(text) + 3) // 4
        return Billed(read, 0, total - read)

"""What a rebuild costs and saves, before it is made (``design.md`` 5, ``economics.md`` 4)."""

from __future__ import annotations

from ..events import Price
from ..policy import DEFAULT_TTL_MS
from ..window import Family

WRITE_SHORT, WRITE_LONG, WRITE_OTHER, READ = 125, 200, 100, 10
"""Cache prices in 1/100 of an uncached input token (convention 25)."""


def price(kind: Family, ttl: int, dropped: int, kept: int) -> Price:
    """Return the figures for dropping ``dropped`` tokens by a rebuild that rewrites ``kept`` others.

    ``breakeven`` is ``n* = (w - r) k / (r d)`` in 1/100 requests, -1 where nothing is dropped.
    """
    write = (WRITE_SHORT if ttl <= DEFAULT_TTL_MS else WRITE_LONG) if kind == "anthropic" else WRITE_OTHER
    if dropped <= 0:
        return Price(max(dropped, 0), kept, -1)
    return Price(dropped, kept, (write - READ) * kept * 100 // (READ * dropped))

"""The sessions the link process keeps at hand: what each host told last, what it was answered, the last request."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec

from ...api import Session
from ...request import Request

Key = tuple[str, str]
"""Harness and the host's id of the session."""


class Held(msgspec.Struct):
    """One session at hand. ``version`` names the list in ``ids`` and ``raws``; ``request`` the last one made."""

    session: Session
    version: str
    ids: list[str]
    raws: list[bytes]
    request: Request
    size: int = 0


class Shelf:
    """Keeps the sessions used last, bounded in bytes. Not thread-safe by itself: the caller holds a lock."""

    def __init__(self, limit: int, dropped: Callable[[Key], None]) -> None:
        self.limit = limit
        self.dropped = dropped
        self.size = 0
        self._held: OrderedDict[Key, Held] = OrderedDict()
        self._epoch = secrets.token_urlsafe(6)
        self._number = 0

    def get(self, key: Key) -> Held | None:
        """Return a session at hand."""
        found = self._held.get(key)
        if found is not None:
            self._held.move_to_end(key)
        return found

    def put(self, key: Key, held: Held) -> None:
        """Keep a session; those not used for longest go where the limit is passed."""
        before = self._held.pop(key, None)
        if before is not None:
            self.size -= before.size
        held.size = sum(map(len, held.raws))
        self._held[key] = held
        self.size += held.size
        while self.size > self.limit and len(self._held) > 1:
            name, gone = self._held.popitem(last=False)
            self.size -= gone.size
            self.dropped(name)

    def drop(self, key: Key) -> None:
        """Keep a session no longer."""
        gone = self._held.pop(key, None)
        if gone is not None:
            self.size -= gone.size

    def name(self) -> str:
        """Return a new name of a list. No other process gives the same."""
        self._number += 1
        return f"{self._epoch}.{self._number}"

    def figures(self) -> dict[str, Any]:
        """Return how many sessions are at hand, and their bytes."""
        return {"sessions": len(self._held), "bytes": self.size}

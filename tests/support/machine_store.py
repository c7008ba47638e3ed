"""The store of the state machine: a log that counts conflicts, lets another process in, and fails where told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from foldlog.domain.errors import Conflict, StoreBusy, StoreError
from foldlog.domain.events import Event
from foldlog.storage.protocol import Chunk, Head, Log


class Watched:
    """A ``Log`` over another. ``before`` is called once, in front of the next append
    (``whole``: it will hand over the whole array); ``fault`` breaks the next one; ``down``: none succeeds."""

    def __init__(self, log: Log) -> None:
        self.inner = log
        self.conflicts = 0
        self.before: Callable[[], None] | None = None
        self.whole = False
        self.fault = ""
        self.down = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def append(self, stream: str, expected: int, events: Sequence[Event], chunks: Iterable[Chunk] = ()) -> Head:
        """Append, after the interloper, with the fault."""
        if self.down:
            raise StoreBusy("the store is busy for long, says the test")
        fault, self.fault = self.fault, ""
        interloper, self.before = self.before, None
        if interloper is not None:
            interloper()
        if fault == "busy":
            raise StoreBusy("the store is busy, says the test")
        if fault == "fails":
            raise StoreError("the store fails, says the test")
        try:
            head = self.inner.append(stream, expected, events, chunks)
        except Conflict:
            self.conflicts += 1
            raise
        if fault == "lost":
            raise StoreError("the acknowledgement was lost, says the test", code="OUTCOME_UNKNOWN")
        if (
            fault == "unclear"
        ):  # a server whose answer was lost repeats the write and sees its own first try as another's
            raise Conflict(stream, expected, head.version)
        return head

"""The live feed: what became of each request, for whoever watches, and never a word of its content."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

import msgspec

KEPT = 200
"""Moments a new watcher is told first."""
BEHIND = 500
"""Moments a watcher may be behind before it misses the oldest."""
ALIVE = 15.0
"""Seconds after which a silent feed says that it lives."""


class Moment(msgspec.Struct, frozen=True, rename={"number": "pass"}):
    """One request, told when its answer ended.

    ``at``: ms UTC; ``kind``: ``main``, ``subagent``, ``helper``, ``compaction``, ``count`` or ``other``; ``level``:
    ``defer``, ``soft+``, ``soft``, ``hard``, ``refused``, ``waiting`` (for a summary), or ``raw`` where the client's
    own went out; ``outcome``: ``answered``, ``overflow``, ``not_processed``, ``aborted``, ``broken``, ``unknown``,
    ``refused``.
    Tokens, -1 = not said: ``tokens`` by our count, ``input``, ``cached``, ``written`` and ``output`` by the provider's.
    ``saved``: tokens of history not sent (estimated). ``lost``: tokens the cache had held and did not serve, and why.
    ``would``: in observation, what foldlog would have sent (estimated).
    """

    at: int
    session: str = ""
    kind: str = "main"
    number: int = 0
    level: str = ""
    reasons: tuple[str, ...] = ()
    model: str = ""
    status: int = 0
    outcome: str = ""
    tokens: int = -1
    input: int = -1
    cached: int = -1
    written: int = -1
    output: int = -1
    saved: int = 0
    lost: int = 0
    cause: str = ""
    ms: int = 0
    note: str = ""
    would: dict[str, float] | None = None

    @property
    def prompt(self) -> int:
        """The tokens of the prompt by the provider's count, -1 where it said none."""
        told = [count for count in (self.input, self.cached, self.written) if count >= 0]
        return sum(told) if told else -1


class Feed:
    """Tells moments to watchers. Used on the event loop only; nobody who watches slowly holds anything up."""

    def __init__(self) -> None:
        self._kept: deque[bytes] = deque(maxlen=KEPT)
        self._watchers: set[asyncio.Queue[bytes | None]] = set()
        self._closed = False

    def tell(self, moment: Moment) -> None:
        """Tell everybody who watches."""
        line = msgspec.json.encode(moment)
        self._kept.append(line)
        for queue in self._watchers:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(line)

    async def watch(self) -> AsyncIterator[bytes]:
        """Yield server-sent events: what was told lately, then what comes, until the feed is closed."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(BEHIND)
        for line in self._kept:
            queue.put_nowait(line)
        if self._closed:
            queue.put_nowait(None)
        self._watchers.add(queue)
        try:
            while True:
                try:
                    line_or_end = await asyncio.wait_for(queue.get(), ALIVE)
                except TimeoutError:
                    yield b": alive\n\n"
                    continue
                if line_or_end is None:
                    return
                yield b"event: request\ndata: " + line_or_end + b"\n\n"
        finally:
            self._watchers.discard(queue)

    def close(self) -> None:
        """Let every watcher go, so that the proxy can end."""
        self._closed = True
        for queue in self._watchers:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(None)

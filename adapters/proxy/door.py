"""What every request of the proxy shares: configuration, connections, the store, the feed, threads and open work."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import httpx
import msgspec

from ...domain.state import State
from ..config import Config
from .feed import Feed
from .gate import Gate
from .pending import Pending
from .sessions import Sessions
from .tally import Tally, Watch

R = TypeVar("R")

THREADS = 64
"""Requests prepared at once; one that waits for a summary (from 95% on) holds a thread for as long."""
TRACKS = 1_000
"""Sessions whose last figures are remembered, for the feed."""


class Came(msgspec.Struct):
    """A request as it came in. ``path`` is still percent-encoded; ``head``: the headers by lower-case name; ``raw``:
    the body as it came, ``body`` without its content encoding.
    """

    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    head: dict[bytes, bytes]
    raw: bytes = b""
    body: bytes = b""

    @property
    def names(self) -> dict[str, str]:
        """The headers as text, by lower-case name."""
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in self.head.items()}


class Track(msgspec.Struct):
    """What is remembered of one session between its requests.

    ``order``: one request is prepared after the other. ``reports``: of answers that ended, still being written.
    ``pricing``: in observation, what would be sent is priced in the order it is made.

    ``prompt``, ``ended``: tokens the provider counted last, and when (ms). ``raw``, ``upto``, ``length``: local tokens
    of the first ``length`` messages of the head's path, which end with message ``upto``.
    """

    order: asyncio.Lock
    reports: set[asyncio.Task[Any]]
    pricing: asyncio.Lock
    prompt: int = 0
    ended: int = 0
    raw: int = 0
    upto: int = 0
    length: int = 0

    def whole(self, state: State) -> int:
        """Return the local tokens of the whole history, as if nothing had been left out; costs what is new."""
        path = state.path
        if self.length > len(path) or (self.length and path[self.length - 1] != self.upto):
            self.raw = self.length = 0
        for m in path[self.length :]:
            self.raw += sum(part.tokens for part in state.node(m).message.parts)
        self.length, self.upto = len(path), state.end()
        return self.raw + state.system_tokens + state.tools_tokens


class Door(msgspec.Struct):
    """The proxy itself."""

    config: Config
    client: httpx.AsyncClient
    gate: Gate[Sessions]
    feed: Feed
    pending: Pending
    pool: ThreadPoolExecutor
    observing: bool = False
    watches: dict[str, Watch] = msgspec.field(default_factory=dict)
    tallies: dict[str, Tally] = msgspec.field(default_factory=dict)
    tasks: set[asyncio.Task[Any]] = msgspec.field(default_factory=set)
    tracks: OrderedDict[str, Track] = msgspec.field(default_factory=OrderedDict)

    async def run(self, work: Callable[[], R]) -> R:
        """Do blocking work in a thread of ours."""
        return await asyncio.get_running_loop().run_in_executor(self.pool, work)

    async def sessions(self) -> Sessions:
        """Return the sessions of the store, opened where it is not yet. Raises ``Blocked``."""
        ready = self.gate.ready
        return ready if ready is not None else await self.run(self.gate.enter)

    def spawn(self, work: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
        """Begin work that goes on when the request it belongs to is gone; ending the proxy waits for it."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def track(self, key: str) -> Track:
        """Return what is remembered of a session."""
        found = self.tracks.get(key)
        if found is None:
            found = self.tracks[key] = Track(asyncio.Lock(), set(), asyncio.Lock())
            while len(self.tracks) > TRACKS:
                idle = next((k for k, t in self.tracks.items() if not t.order.locked() and not t.reports), None)
                if idle is None or idle == key:
                    break
                del self.tracks[idle]
        self.tracks.move_to_end(key)
        return found

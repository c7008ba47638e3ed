"""Requests that go through untouched: other paths, helper calls, and the client's own where foldlog stands aside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import httpx
import msgspec
from starlette.types import Receive

from ...api import wall_clock
from ...domain.overflow import explain
from . import answer, refuse, upstream
from .answer import Send
from .door import Came, Door
from .feed import Moment
from .metering import Careful
from .protocols import Protocol, Usage
from .refuse import Answer

UNREACHABLE = "UPSTREAM_UNREACHABLE"
LOOKED_AT = 1 << 20
"""Bytes of an error that are looked at."""


class Result(msgspec.Struct):
    """What became of a request that went through. ``kind`` as in ``Moment.outcome``; ``status`` 0: no answer."""

    kind: str = "aborted"
    status: int = 0
    usage: Usage | None = None


class ClientGone(Exception):
    """The client went away before its request was whole."""


def target(door: Door, came: Came, protocol: Protocol | None) -> httpx.URL:
    """Return where a request goes."""
    name = upstream.family(came.path, came.head, None if protocol is None else protocol.upstream)
    return upstream.address(door.config.upstreams[name], came.path, came.query)  # type: ignore[index]  # its own names


async def stream(door: Door, came: Came, receive: Receive, send: Send) -> None:
    """Pass a request on a path foldlog has nothing to do with: method, query, headers, and the body as it comes."""
    ended = asyncio.Event()
    sized = b"content-length" in came.head or b"transfer-encoding" in came.head

    async def body() -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            more = message.get("more_body", False)
            yield message.get("body", b"")
        ended.set()

    async def gone() -> None:
        await ended.wait()
        await away(receive)

    if not sized:
        await receive()
        ended.set()
    request = httpx.Request(
        came.method,
        target(door, came, None),
        headers=upstream.forwarded(came.headers),
        content=body() if sized else None,
    )
    await unless(gone(), _relay(door, request, send, refuse.plain))


async def raw(door: Door, came: Came, protocol: Protocol, send: Send, kind: str, note: str = "") -> None:
    """Pass a request whose body was read on as it came, and tell the feed."""
    began = wall_clock()
    result = await _relay(door, _same(door, came, protocol, read=False), send, protocol.refusal)
    ended = wall_clock()
    level = "raw" if kind in ("main", "subagent") else ""
    door.feed.tell(
        Moment(at=ended, kind=kind, level=level, status=result.status, outcome=result.kind, ms=ended - began, note=note)
    )


async def metered(door: Door, came: Came, protocol: Protocol, send: Send, result: Result) -> None:
    """Pass a request on as it came and read its answer; ``result`` tells even where this is cancelled."""
    meter = Careful(protocol.meter())
    seen = bytearray()
    opened: list[upstream.Opened] = []

    def look(response: httpx.Response, piece: bytes) -> None:
        result.status = response.status_code
        if not opened:
            opened.append(upstream.Opened(response))
        plain = opened[0].feed(piece)
        meter.feed(plain)
        if response.status_code >= 400 and len(seen) < LOOKED_AT:
            seen.extend(plain)

    try:
        found = await _relay(door, _same(door, came, protocol, read=True), send, protocol.refusal, look)
        result.kind, result.status = found.kind, found.status
    finally:
        result.usage = meter.result()
    error = bytes(seen) or result.usage.error
    if error and explain(result.status, error) is not None:
        result.kind = "overflow"
    elif result.kind == "answered" and not result.usage.complete:
        result.kind = "broken"


def _same(door: Door, came: Came, protocol: Protocol, *, read: bool) -> httpx.Request:
    """Return the client's own request, its body byte for byte."""
    headers = upstream.forwarded(came.headers, read=read)
    return httpx.Request(came.method, target(door, came, protocol), headers=headers, content=came.raw)


async def unless(gone: Coroutine[Any, Any, None], work: Coroutine[Any, Any, Any]) -> None:
    """Do ``work`` until ``gone`` ends; it is cancelled then."""
    tasks = asyncio.ensure_future(work), asyncio.ensure_future(gone)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    if not tasks[0].cancelled():
        tasks[0].result()


async def away(receive: Receive) -> None:
    """Return when the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _relay(
    door: Door,
    request: httpx.Request,
    send: Send,
    refusal: Callable[[str, str, int], Answer],
    look: Callable[[httpx.Response, bytes], None] | None = None,
) -> Result:
    """Send a request and pass its answer on. ``look`` is shown each piece of it."""
    problem: Exception | None = None
    try:
        response = await door.client.send(request, stream=True)
    except ClientGone:
        return Result()
    except (httpx.TransportError, httpx.InvalidURL) as error:
        problem = error
    if problem is not None:
        await answer.say(send, refusal(UNREACHABLE, unreachable(request.url.host, problem), 502))
        return Result(failed(problem))
    try:
        await answer.begin(send, response)
        async for piece in response.aiter_raw():
            if look is not None:
                look(response, piece)
            await answer.more(send, piece)
    except (httpx.TransportError, httpx.StreamError):
        return Result("broken", response.status_code)  # the client's connection is cut as the provider's was
    finally:
        await response.aclose()
    await answer.end(send)
    return Result(ended(response.status_code), response.status_code)


def ended(status: int) -> str:
    """Return the outcome of an answer that came whole; a server's failure may have come after the work was done."""
    if status < 400:
        return "answered"
    return "not_processed" if status < 500 or status == 529 else "unknown"


def failed(error: Exception) -> str:
    """Return the outcome of a request that got no answer."""
    unsent = (
        httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout | httpx.InvalidURL | httpx.UnsupportedProtocol
    )
    return "not_processed" if isinstance(error, unsent) else "unknown"


def unreachable(host: str, error: Exception) -> str:
    """Return what a person is told where the provider does not answer."""
    return f"no answer from {host} ({type(error).__name__}). Is the address right and the network up?"

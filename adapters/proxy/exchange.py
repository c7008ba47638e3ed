"""One managed request from its body to the last byte of its answer (``specs/proxy.md``, Outcomes).

The answer goes through untouched while a meter reads beside it; what became of the request is reported behind the
client's back, so that no report holds an answer up. However a request ends, it is told once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

import httpx
import msgspec

from ...domain.errors import FoldlogError
from ...domain.overflow import bulky, unbound
from . import allowance, answer, passing, preparing, reporting, upstream
from .answer import Send
from .door import Came, Door
from .metering import Careful
from .preparing import Prepared
from .protocols import Caller, Meter, Protocol
from .receipts import Receipts
from .reporting import Outcome
from .sessions import Admitted, Sessions

R = TypeVar("R", bound=Prepared | None)

_RECEIPTS = frozenset({"openai-responses"})
"""Wires whose overflow may come as an event behind a status of 200."""


class Exchange(msgspec.Struct):
    """One request under way. ``told``: what became of it was reported; ``last``: it is not sent again."""

    door: Door
    came: Came
    protocol: Protocol
    caller: Caller
    send: Send
    ready: Prepared
    told: bool = False
    last: bool = False


async def managed(door: Door, came: Came, admitted: Admitted, sessions: Sessions, send: Send) -> None:
    """Serve a request of a session. Raises a ``FoldlogError`` where it must not be sent; nothing was answered then."""
    assert admitted.managed is not None
    ready = await _made(door, preparing.prepare(door, sessions, admitted, admitted.managed), admitted.caller)
    one = Exchange(door, came, admitted.protocol, admitted.caller, send, ready)
    try:
        while await _once(one):
            pass
    except asyncio.CancelledError:  # the client went away
        _tell(one, Outcome("aborted"))
        raise
    except BaseException:
        _tell(one, Outcome("unknown"))
        raise


async def _made(door: Door, work: Coroutine[Any, Any, R], caller: Caller) -> R:
    """Return a request; where its client goes away before it is made, it is taken back: a thread cannot be stopped."""
    making = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        door.spawn(_unsent(door, making, caller))
        raise


async def _unsent(door: Door, making: asyncio.Future[R], caller: Caller) -> None:
    with contextlib.suppress(FoldlogError):
        ready = await making
        if ready is not None:
            await reporting.begin(door, ready, caller, Outcome("not_processed", words="the client went away before"))


async def _once(one: Exchange) -> bool:
    """Send the request and pass its answer on; return whether it was refused as too long and is smaller now."""
    response = await _ask(one)
    if response is None:
        return False
    if response.status_code < 400:
        return await _stream(one, response)
    raw = await answer.whole(response)
    plain = upstream.Opened(response).feed(raw)
    if await _refused(one, response.status_code, plain):
        return True
    await answer.give(one.send, response, raw)
    return False


async def _ask(one: Exchange) -> httpx.Response | None:
    """Send the request; answer in the provider's place where it cannot be reached."""
    request = httpx.Request(
        "POST",
        passing.target(one.door, one.came, one.protocol),
        headers=upstream.forwarded(one.came.headers, remade=True, read=True),
        content=one.ready.payload,
    )
    try:
        return await one.door.client.send(request, stream=True)
    except (httpx.TransportError, httpx.InvalidURL) as error:
        _tell(one, Outcome(passing.failed(error), words=type(error).__name__))
        refusal = one.protocol.refusal(passing.UNREACHABLE, passing.unreachable(request.url.host, error), 502)
    await answer.say(one.send, refusal)
    return None


async def _stream(one: Exchange, response: httpx.Response) -> bool:
    """Pass an answer on; return whether it turned out a refusal as too long, and the request is smaller now."""
    meter = Careful(one.protocol.meter())
    try:
        try:
            rest = await _pass_on(one, response, meter)
        finally:
            await response.aclose()
    except asyncio.CancelledError:
        _tell(one, Outcome("aborted", response.status_code, usage=meter.result()))
        raise
    except (httpx.TransportError, httpx.StreamError) as error:
        # the client's connection is cut as the provider's was: an end of ours would look like a whole answer
        _tell(one, Outcome("broken", response.status_code, type(error).__name__, meter.result()))
        return False
    if rest is None:
        return True
    usage = meter.result()
    if usage.error:
        one.last = True  # the client has seen of this answer: no other can take its place
        await _refused(one, response.status_code, usage.error)
    _tell(one, Outcome("answered" if usage.complete else "broken", response.status_code, usage=usage))
    await answer.end(one.send, rest)
    return False


async def _pass_on(one: Exchange, response: httpx.Response, meter: Meter) -> bytes | None:
    """Pass an answer on but for its last piece, and return that; None where a smaller request is to be sent instead.

    Of an answer that is no stream the client has all with the last piece, so that one waits for the report too.
    """
    rest = b""
    opened = upstream.Opened(response)
    events = response.headers.get("content-type", "").startswith("text/event-stream")
    held: list[bytes] | None = [] if events and one.protocol.name in _RECEIPTS else None
    receipts = Receipts()
    calls = 0
    if held is None:
        await answer.begin(one.send, response)
    try:
        async for piece in response.aiter_raw():
            plain = opened.feed(piece)
            meter.feed(plain)
            usage = meter.result() if events else None
            if held is not None:
                held.append(piece)
                if usage is not None and usage.error:
                    if await _refused(one, response.status_code, usage.error):
                        return None
                elif not receipts.over(plain):
                    continue
                await answer.begin(one.send, response)
                await answer.more(one.send, b"".join(held[:-1]))
                held = None
            if usage is not None and len(usage.calls) > calls:
                calls = len(usage.calls)  # a client may run a tool while the answer still comes
                one.door.pending.saw(one.ready.key, usage.calls)
            if usage is not None and usage.complete and reporting.prompt_of(usage) >= 0:
                # told before the client can go on, so that its next request finds the figures; one wire gives them last
                _tell(one, Outcome("answered", response.status_code, usage=usage))
            if events:
                await answer.more(one.send, piece)
                continue
            if rest:
                await answer.more(one.send, rest)
            rest = piece
    except (httpx.TransportError, httpx.StreamError):
        if held is not None:
            await answer.begin(one.send, response)
            await answer.more(one.send, b"".join(held))
        raise
    if held is not None:
        await answer.begin(one.send, response)
        rest = b"".join(held)
    return rest


async def _refused(one: Exchange, status: int, body: bytes) -> bool:
    """Report a provider's error; where it was too long, return whether a smaller request is ready to be sent."""
    if one.told:
        return False
    one.told = True
    # waited for: a request refused as too long is decided anew by it
    words = _words(one, body)
    found = await asyncio.shield(reporting.refused(one.door, one.ready, one.caller, status, words))
    fits = found.overflow and not found.output_driven  # where the answer asked for is the cause no fold helps
    shorter = None if one.last else allowance.lowered(one.ready.payload, one.protocol.member, found)
    if shorter is not None:
        one.ready.payload, one.told, one.last = shorter, False, True
        return True
    if one.last or not (fits or unbound(found, words) or bulky(found)):
        return False
    smaller = await _made(one.door, preparing.again(one.door, one.ready), one.caller)
    if smaller is None:
        return False
    one.ready, one.told, one.last = smaller, False, True
    return True


def _words(one: Exchange, body: bytes) -> str:
    text = body[: answer.WORDS].decode("utf-8", "replace")
    return upstream.redacted(text, upstream.secrets(one.came.headers))


def _tell(one: Exchange, outcome: Outcome) -> asyncio.Future[None]:
    """Report what became of the request, the first time it is said."""
    if one.told:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done
    one.told = True
    if outcome.usage is not None:
        one.ready.managed.answered(outcome.usage, one.ready.admitted.body)
        one.door.pending.saw(one.ready.key, outcome.usage.calls)
    return reporting.begin(one.door, one.ready, one.caller, outcome)

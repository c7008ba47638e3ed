"""Observing: the client's bytes go out untouched; beside them the session is recorded, and what foldlog would have sent
is priced (``specs/proxy.md``, Observing).

What went out costs what the provider said. What would have gone out was never sent: its cache reads and writes come
from the simulated provider that bills are made with, in our own count of tokens, brought to the provider's by what it
counted for the same history. Such figures are *estimated*, and named so.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping

import msgspec

from ...api import wall_clock
from ...domain.errors import FoldlogError
from ..billing.profiles import PROFILES
from ..billing.provider import Provider
from ..billing.provider import Usage as Simulated
from ..models.tokens import tokenizer
from ..simulate.arms import profile_for
from ..simulate.wirelog import WireLog
from . import passing, preparing, reporting, upstream
from .answer import Send
from .body import Body
from .door import Came, Door
from .feed import Moment
from .preparing import Prepared
from .protocols import Caller, Protocol, Usage
from .tally import Tally, Watch, cost_of

LARGEST = 256 * 1024 * 1024
SUFFIX = "-observed"
"""Behind the client's name in the names of observed sessions: they never went out as recorded."""
_HOUR = re.compile(rb'"ttl"\s*:\s*"1h"')


class Would(msgspec.Struct):
    """What foldlog would have sent.

    ``usage``: the simulated provider's answer, and ``whole``: the whole history, both in local tokens.
    """

    ready: Prepared
    watch: Watch
    usage: Simulated
    whole: int


async def observed(door: Door, came: Came, protocol: Protocol, send: Send) -> None:
    """Pass a request on as it came and record the session beside it; nothing of that delays or changes a byte."""
    beside = door.spawn(_beside(door, came, watched(protocol)))
    result = passing.Result()
    try:
        await passing.metered(door, came, protocol, send, result)
    finally:
        door.spawn(_settle(door, beside, result))


def watched(protocol: Protocol) -> Protocol:
    """Return the protocol with names of its own for observed sessions."""

    def who(headers: Mapping[str, str], body: Body) -> Caller:
        caller = protocol.who(headers, body)
        return msgspec.structs.replace(caller, harness=caller.harness + SUFFIX)

    return msgspec.structs.replace(protocol, who=who)


async def _beside(door: Door, came: Came, protocol: Protocol) -> Would | Caller | FoldlogError:
    """Record the request; return what would have been sent, or whose it is where it belongs to no session."""
    try:
        came.body = upstream.plain_body(came.raw, came.head, LARGEST)
        sessions, admitted = await preparing.admit(door, came, protocol)
    except FoldlogError as error:
        return error
    if admitted.managed is None:
        return admitted.caller
    try:
        async with door.track(admitted.managed.name).pricing:
            ready = await preparing.prepare(door, sessions, admitted, admitted.managed)
            return await door.run(lambda: _priced(door, ready, came))
    except FoldlogError as error:
        return error
    finally:
        preparing.done(door, sessions, admitted)


def _priced(door: Door, ready: Prepared, came: Came) -> Would:
    with ready.managed.lock:
        hot = ready.session.core.hot()
        watch = door.watches.get(ready.key)
        if watch is None:
            name = "anthropic-1h" if _HOUR.search(came.body) else ""
            profile = PROFILES[name] if name else profile_for(ready.model)
            lines = WireLog(None, ready.key, hot.state.codec, tokenizer())
            watch = door.watches[ready.key] = Watch(lines, Provider(profile), profile, Tally(profile.name))
        record = watch.lines.take(ready.request, hot.state, hot.view, ready.began, ready.model, -1)
        return Would(ready, watch, watch.provider.answer(record), ready.whole)


async def _settle(door: Door, beside: asyncio.Task[Would | Caller | FoldlogError], result: passing.Result) -> None:
    would = await beside
    usage = result.usage
    now = wall_clock()
    if not isinstance(would, Would):
        if isinstance(would, Caller):
            door.feed.tell(_moment(now, would.kind, result, note=would.why))
        else:
            door.feed.tell(_moment(now, "main", result, note=f"not recorded: {would.code}"))
        return
    tally = would.watch.tally
    real = reporting.prompt_of(usage)
    figures: dict[str, float] | None = None
    guess: Usage | None = None
    if usage is not None and real > 0 and would.whole > 0:
        scale = real / would.whole
        output = usage.output or 0
        guess = Usage(
            input=round(would.usage.uncached * scale),
            cache_read=round(would.usage.read * scale),
            cache_write=round(would.usage.written * scale),
            output=usage.output,
            response_id=usage.response_id,
        )
        cost = cost_of(would.watch.profile, usage.input, usage.cache_read, usage.cache_write, output)
        mine = cost_of(would.watch.profile, guess.input, guess.cache_read, guess.cache_write, output)
        tokens = reporting.prompt_of(guess)
        tally.requests += 1
        tally.cost += cost
        tally.would += mine
        tally.largest, tally.largest_would = max(tally.largest, real), max(tally.largest_would, tokens)
        figures = {
            "tokens": tokens, "cached": guess.cache_read or 0, "cost": round(mine), "cost_as_sent": round(cost),
            "total": round(tally.would), "total_as_sent": round(tally.cost),
        }  # fmt: skip
    # what is told to the session is the answer its own request would have had: its thresholds follow from that
    outcome = "answered" if guess is not None else result.kind
    if guess is None and outcome in ("answered", "overflow"):  # it was the client's request that did not fit
        outcome = "unknown"
    with contextlib.suppress(FoldlogError):
        heard = reporting.Outcome(outcome, result.status, usage=guess)
        await door.run(lambda: reporting.store(would.ready, heard, ""))
    door.feed.tell(_moment(now, would.ready.admitted.caller.kind, result, would, figures))


def _moment(
    now: int,
    kind: str,
    result: passing.Result,
    would: Would | None = None,
    figures: dict[str, float] | None = None,
    note: str = "",
) -> Moment:
    request = would.ready.request if would is not None else None
    return Moment(
        at=now,
        session="" if would is None else would.ready.key,
        kind=kind,
        number=0 if request is None else request.pass_number,
        level=("raw" if kind in ("main", "subagent") else "") if request is None else f"would be {request.level}",
        reasons=() if request is None else request.reasons,
        model=result.usage.model if result.usage is not None else "",
        status=result.status,
        outcome=result.kind,
        note=note,
        would=figures,
        input=reporting.count(result.usage, "input"),
        cached=reporting.count(result.usage, "cache_read"),
        written=reporting.count(result.usage, "cache_write"),
        output=reporting.count(result.usage, "output"),
    )

"""Observing: the client's bytes go out untouched; beside them the session is recorded, and what foldlog would have sent
is priced (``specs/proxy.md``, Observing).

What went out costs what the provider said. What would have gone out was never sent, so it is priced by the simulated
provider that bills are made with, and so is what went out: two figures by the same rules, in our own count of tokens,
brought to the provider's by what it counted for the request it got. They are *estimated*, and named so.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping

import msgspec

from ...api import wall_clock
from ...domain.errors import FoldlogError
from ...projections.wire import CURRENT, wire
from ..billing.baselines import Raw, doing_nothing
from ..billing.profiles import PROFILES
from ..billing.provider import Provider
from ..billing.provider import Usage as Simulated
from ..billing.records import Block, Record
from ..models.tokens import tokenizer
from ..simulate.arms import blocks_of, profile_for, regions
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
WATCHED = 32
"""Sessions whose simulated caches are kept; an older one that comes back begins with cold ones, in both estimates."""
SUFFIX = "-observed"
"""Behind the client's name in the names of observed sessions: they never went out as recorded."""
_HOUR = re.compile(rb'"ttl"\s*:\s*"1h"')


class Would(msgspec.Struct):
    """What foldlog would have sent.

    ``usage``, ``plain``: a simulated provider's answers to it and to what was sent, in local tokens.
    """

    ready: Prepared
    watch: Watch
    usage: Simulated
    plain: Simulated


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
            providers = Provider(profile), Provider(profile)
            tally = door.tallies.setdefault(ready.key, Tally(profile.name))
            watch = door.watches[ready.key] = Watch(lines, *providers, profile, tally)
            while len(door.watches) > WATCHED:
                del door.watches[next(iter(door.watches))]
        record = watch.lines.take(ready.request, hot.state, hot.view, ready.began, ready.model, -1)
        plain = watch.plain.answer(_as_sent(watch, ready))
        return Would(ready, watch, watch.ours.answer(record), plain)


def _as_sent(watch: Watch, ready: Prepared) -> Record:
    """Return the record of the client's own request, with the marks such a client sets (convention 26)."""
    form, codec = wire(CURRENT), watch.lines.codec
    body, protocol = ready.admitted.body, ready.admitted.protocol
    given = protocol.tools_of(body), protocol.system_of(body) or b""
    if given != watch.regions:
        watch.regions = given
        watch.lead = regions(form, codec, *given, watch.lines.count)
    blocks: list[Block] = []
    for raw in body.messages:
        found = watch.known.get(raw)
        if found is None:
            found = watch.known[raw] = blocks_of(form, codec, raw, watch.lines.count)
        blocks += found
    (record,) = doing_nothing(ready.key, [Raw(ready.began, ready.model, tuple(blocks))], window=0, front=watch.lead)
    return record


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
    if usage is not None and real > 0 and would.plain.prompt > 0:
        scale = real / would.plain.prompt
        output = usage.output or 0
        guess = Usage(
            input=round(would.usage.uncached * scale),
            cache_read=round(would.usage.read * scale),
            cache_write=round(would.usage.written * scale),
            output=usage.output,
            response_id=usage.response_id,
        )
        profile = would.watch.profile
        cost = cost_of(profile, usage.input, usage.cache_read, usage.cache_write, output)
        mine = cost_of(profile, guess.input, guess.cache_read, guess.cache_write, output)
        plain = scale * cost_of(profile, would.plain.uncached, would.plain.read, would.plain.written, 0)
        plain += output * profile.output
        tokens = reporting.prompt_of(guess)
        tally.requests += 1
        tally.cost += cost
        tally.plain += plain
        tally.would += mine
        tally.largest, tally.largest_would = max(tally.largest, real), max(tally.largest_would, tokens)
        figures = {
            "tokens": tokens, "cached": guess.cache_read or 0, "cost": round(mine), "cost_as_sent": round(plain),
            "cost_told": round(cost), "total": round(tally.would), "total_as_sent": round(tally.plain),
            "total_told": round(tally.cost),
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

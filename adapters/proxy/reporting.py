"""What became of a request: told to its session, to the feed and, in words, to the log; each request once."""

from __future__ import annotations

import asyncio
import secrets as random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec
import structlog

from ...api import wall_clock
from ...domain.errors import FoldlogError, StoreError
from ...domain.overflow import Explained, explain
from ...domain.overflow import outcome as outcome_of
from .door import Door, Track
from .feed import Moment
from .preparing import BUSY_PAUSES, Prepared
from .protocols import Caller, Usage

log = structlog.get_logger("foldlog.proxy")
R = TypeVar("R")

NOTABLE = 1_000
"""Tokens the cache did not serve again that are told as a loss; less is the provider's rounding."""


class Outcome(msgspec.Struct, frozen=True):
    """How a request ended. ``kind``: ``answered`` or one of ``report_failure``.

    ``words``: the provider's, without keys; ``usage``: what its answer said, None = nothing; ``limit``, ``used``: the
    tokens an overflow named, 0 = not said.
    """

    kind: str
    status: int = 0
    words: str = ""
    usage: Usage | None = None
    limit: int = 0
    used: int = 0


def begin(door: Door, ready: Prepared, caller: Caller, outcome: Outcome) -> asyncio.Task[None]:
    """Report in the background; the session's next request waits for it, the client does not."""
    return _behind(door, ready, _report(door, ready, caller, outcome))


def refused(door: Door, ready: Prepared, caller: Caller, status: int, words: str) -> asyncio.Task[Explained]:
    """Report a provider's error (``words``: without keys), return what it means; an overflow is learnt from.

    It is written down like any outcome, whether the client waits for it or not.
    """
    return _behind(door, ready, _refused(door, ready, caller, status, words))


def _behind(door: Door, ready: Prepared, work: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
    task = door.spawn(work)
    ready.track.reports.add(task)
    task.add_done_callback(ready.track.reports.discard)
    return task


async def _report(door: Door, ready: Prepared, caller: Caller, outcome: Outcome) -> None:
    command = random.token_urlsafe(9)
    await _patiently(door, ready, lambda: store(ready, outcome, command))
    _said(door, ready, caller, outcome)


async def _refused(door: Door, ready: Prepared, caller: Caller, status: int, words: str) -> Explained:
    command = random.token_urlsafe(9)
    found = await _patiently(door, ready, lambda: ready.request.report_error(status, words, command=command))
    if found is None:
        found = explain(status, words)
    kind = "overflow" if found.overflow else outcome_of(found)
    _said(door, ready, caller, Outcome(kind, status, words, limit=found.limit, used=found.used))
    return found


async def _patiently(door: Door, ready: Prepared, work: Callable[[], R]) -> R | None:
    """Write something down, again where the store is busy. None: it could not be; the session goes on without."""
    for pause in (*BUSY_PAUSES, None):
        try:
            return await door.run(work)
        except FoldlogError as error:
            if not isinstance(error, StoreError) or not error.recoverable or pause is None:
                log.warning("not recorded", session=ready.key, number=ready.request.pass_number, why=error.code)
                return None
            await asyncio.sleep(pause)
    return None


def _said(door: Door, ready: Prepared, caller: Caller, outcome: Outcome) -> None:
    ended = wall_clock()
    door.feed.tell(moment(ready, caller, outcome, ended))
    told = prompt_of(outcome.usage)
    if told > 0:
        ready.track.prompt, ready.track.ended = told, ended


def store(ready: Prepared, outcome: Outcome, command: str) -> None:
    """Report to the session what became of a request. Blocks. ``command``: makes a repeated report count once."""
    command = command or random.token_urlsafe(9)
    usage = outcome.usage
    request = ready.request
    if usage is not None and prompt_of(usage) > 0:
        request.report_usage(
            input=usage.input,
            cache_read=usage.cache_read,
            cache_write=usage.cache_write,
            output=usage.output,
            command=usage.response_id or command,
        )
    elif outcome.kind == "answered":
        request.report_usage(command=(usage.response_id if usage is not None else "") or command)
    if outcome.kind != "answered":
        request.report_failure(
            outcome.kind,
            limit=outcome.limit or None,
            used=outcome.used or None,
            detail=outcome.words,
            command=f"{command}/outcome",
        )


def prompt_of(usage: Usage | None) -> int:
    """Return the tokens of a prompt as the provider counted it, -1 where it said none."""
    if usage is None:
        return -1
    told = [count for count in (usage.input, usage.cache_read, usage.cache_write) if count is not None]
    return sum(told) if told else -1


def moment(ready: Prepared, caller: Caller, outcome: Outcome, ended: int) -> Moment:
    """Return what the feed tells of a request."""
    request, usage = ready.request, outcome.usage
    lost, cause = _lost(ready, usage, ended)
    return Moment(
        at=ended,
        session=ready.key,
        kind=caller.kind,
        number=request.pass_number,
        level=request.level,
        reasons=request.reasons,
        model=ready.model,
        status=outcome.status,
        outcome=outcome.kind,
        tokens=request.usage_estimate,
        input=count(usage, "input"),
        cached=count(usage, "cache_read"),
        written=count(usage, "cache_write"),
        output=count(usage, "output"),
        saved=max(ready.history - request.usage_estimate, 0),
        lost=lost,
        cause=cause,
        ms=max(ended - ready.began, 0),
        note=ready.note,
    )


def count(usage: Usage | None, name: str) -> int:
    """Return one of the provider's figures, -1 where it said none."""
    value: int | None = None if usage is None else getattr(usage, name)
    return -1 if value is None else value


def _lost(ready: Prepared, usage: Usage | None, ended: int) -> tuple[int, str]:
    """Return how much the cache had held and did not serve, and why: our rebuild, the host, time, else the provider."""
    track: Track = ready.track
    cached = count(usage, "cache_read")
    if cached < 0 or not track.prompt:
        return 0, ""
    lost = min(track.prompt, prompt_of(usage)) - cached
    if lost < max(NOTABLE, track.prompt // 50):
        return 0, ""
    reasons = ready.request.reasons
    if ready.request.level != "defer":
        return lost, ", ".join(reasons) or ready.request.level
    own = [reason for reason in reasons if reason.startswith("host_")]
    if own:
        return lost, ", ".join(own)
    if ready.began - track.ended > ready.lifetime > 0:
        return lost, "idle longer than the cache lives"
    return lost, "the provider"

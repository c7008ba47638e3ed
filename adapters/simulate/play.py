"""Playing a recorded session request by request: its times, its usage as far as it applies, its agent's own drops."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import msgspec

from ...api import Engine, Request, Session
from ...domain import events as ev
from ...domain.errors import InputError, OptionError, Refused
from ...domain.passes.drain import PLACEHOLDER_TOKENS
from ...domain.policy import Policy
from ...domain.session import State, call_part, is_reduce
from ...domain.streams import session_stream
from ...projections.timeline import Cause, causes
from ..models.tokens import tokenizer
from ..traces.model import Skipped, Step, Trace
from .usage import Meter, prompt
from .wirelog import WireLog

HARNESS = "trace"
"""Played sessions stand apart from those of real hosts in the store."""
WINDOW = 200_000

Progress = Callable[[int, int], None]
"""Called with the requests played and how many there are."""


class Playing(msgspec.Struct, frozen=True):
    """How a trace is played. ``window`` in tokens, 0 = unknown; ``session``: its id, empty for the trace's name."""

    session: str = ""
    harness: str = HARNESS
    window: int = WINDOW
    policy: Policy | None = None
    wire_log: BinaryIO | None = None


class Times(msgspec.Struct, frozen=True):
    """Time a pass took, in ms: mean, median, 99th percentile, longest; and all of them together, in seconds."""

    mean: float
    p50: float
    p99: float
    longest: float
    total: float


class Played(msgspec.Struct, frozen=True):
    """What came of it. Sizes in tokens; ``largest_prompt``: the provider's count, -1 if none was reported.

    ``reduces``: calls of ctx_reduce found, ``refused_reduces``: those answered by an error. ``freed``: tokens dropped.
    ``refusals``: foldlog's, by code; ``overflows``: requests a provider with this window would have refused.
    ``usage``: how often the usage was recorded, reduced, estimated, or not known.
    """

    trace: str
    session: str
    harness: str
    codec: str
    model: str
    window: int
    requests: int
    passes: tuple[Cause, ...]
    landed: int
    freed: int
    queued: int
    largest_request: int
    largest_prompt: int
    refusals: dict[str, int]
    overflows: int
    reduces: int
    refused_reduces: int
    usage: dict[str, int]
    pass_ms: Times
    skipped: tuple[Skipped, ...]
    ignored: dict[str, int]
    tail: int

    def count(self, *levels: str) -> int:
        """Return how many passes had one of ``levels``."""
        return sum(one.passes for one in self.passes if one.level in levels)


class _Tally(msgspec.Struct):
    seen: list[tuple[str, tuple[str, ...]]] = msgspec.field(default_factory=list)
    took: list[float] = msgspec.field(default_factory=list)
    refusals: Counter[str] = msgspec.field(default_factory=Counter)
    usage: Counter[str] = msgspec.field(default_factory=Counter)
    landed: int = 0
    freed: int = 0
    largest_request: int = 0
    largest_prompt: int = -1
    reduces: int = 0
    refused_reduces: int = 0
    overflows: int = 0


def play(engine: Engine, trace: Trace, how: Playing | None = None, progress: Progress | None = None) -> Played:
    """Play a trace as a new session of ``engine``'s store and say what came of it.

    A refused request is counted and the play goes on. Raises ``OptionError`` where the session is there already.
    """
    how = how or Playing()
    name = how.session or trace.name
    if engine.log.head(session_stream(how.harness, name)) is not None:
        raise OptionError(
            "the store has a session of that name already; name another with --session", value=f"{how.harness}/{name}"
        )
    tally, meter = _Tally(), Meter()
    model = trace.model
    session = _session(engine, trace, how, name, model)
    log = None
    if how.wire_log is not None:
        log = WireLog(how.wire_log, name, trace.codec, tokenizer())
    messages: list[bytes] = []
    commands: set[str] = set()
    for index, step in enumerate(trace.steps):
        if step.model and step.model != model:
            model = step.model
            session = _session(engine, trace, how, name, model)
        _reduce(session, trace.codec, step, index, commands, tally)
        messages += step.messages
        request = _pass(session, trace, step, messages, tally)
        if request is not None:
            _answer(session, request, step, how.window, meter, tally)
            if log is not None:
                hot = session.core.hot()
                output = -1 if step.usage is None else step.usage.output
                log.write(request, hot.state, hot.view, step.at or hot.state.seen, model, output)
        if progress is not None:
            progress(index + 1, len(trace.steps))
    return _played(session, trace, how, name, tally)


def _session(engine: Engine, trace: Trace, how: Playing, name: str, model: str) -> Session:
    return engine.session(
        name, how.harness, codec=trace.codec, model=model or None, context_limit=how.window, policy=how.policy
    )


def _pass(session: Session, trace: Trace, step: Step, messages: list[bytes], tally: _Tally) -> Request | None:
    now = step.at / 1000 if step.at > 0 else None
    begun = time.perf_counter()
    try:
        request = session.prepare(messages, system=trace.system, tools=trace.tools, now=now)
    except Refused as refusal:
        tally.refusals[refusal.code] += 1
        tally.seen.append(("refused", (refusal.code,)))
        return None
    finally:
        tally.took.append((time.perf_counter() - begun) * 1000)
    tally.seen.append((request.level, request.reasons))
    return request


def _answer(session: Session, request: Request, step: Step, window: int, meter: Meter, tally: _Tally) -> None:
    event = request._produced.event
    if not isinstance(event, ev.PassDeferred):
        tally.landed += len(event.landed)
        tally.freed += sum(_freed(session.core.hot().state, number, mode) for number, mode in event.landed)
    tally.largest_request = max(tally.largest_request, event.tokens)
    told = meter.tell(step.usage, event.tokens, tally.freed)
    tally.usage["none" if told is None else told.source] += 1
    if told is None:
        return
    total = prompt(told.usage)
    tally.largest_prompt = max(tally.largest_prompt, -1 if total is None else total)
    if total is not None and 0 < window < total:
        tally.overflows += 1
        request.report_failure("overflow", limit=window, used=total)
        return
    counts = msgspec.structs.astuple(told.usage)
    given, read, written, output = (count if count >= 0 else None for count in counts)
    request.report_usage(given, read, written, output)


def _freed(state: State, number: int, mode: str) -> int:
    tag = state.tags[number - 1]
    if mode != "full":
        return max(tag.tokens - PLACEHOLDER_TOKENS, 0)
    call = call_part(state, tag.m, tag.p)
    return tag.tokens + (call.tokens if call is not None else 0)


def _reduce(session: Session, codec: str, step: Step, index: int, commands: set[str], tally: _Tally) -> None:
    """Do what the agent asked for in the answer this step brings: its host would have, before the next request."""
    for call, drop in reduces(codec, step.messages):
        tally.reduces += 1
        command = call if call not in commands else f"{call}#{index}"  # some hosts count their call ids anew each turn
        commands.add(command)
        try:
            session.reduce(drop, command=command)
        except InputError:
            tally.refused_reduces += 1


def reduces(codec: str, messages: tuple[bytes, ...]) -> Iterator[tuple[str, Any]]:
    """Yield (call id, its ``drop``) of each ``ctx_reduce`` call in new messages, in order."""
    for raw in messages:
        if b"ctx_reduce" not in raw:
            continue
        try:
            message = msgspec.json.decode(raw)
        except msgspec.MsgspecError:
            continue  # only a message with tokens no machine number holds; the engine still takes it
        if not isinstance(message, dict) or message.get("role") != "assistant":
            continue
        for call, name, given in _calls(codec, message):
            if isinstance(name, str) and is_reduce(name) and isinstance(given, dict) and "drop" in given:
                yield str(call), given["drop"]


def _calls(codec: str, message: dict[str, Any]) -> Iterator[tuple[Any, Any, Any]]:
    if codec == "openai-chat":
        for call in message.get("tool_calls") or ():
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict):
                try:
                    given = msgspec.json.decode(function.get("arguments") or "null")
                except (msgspec.MsgspecError, TypeError):
                    continue
                yield call.get("id"), function.get("name"), given
        return
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") in ("tool_use", "toolCall"):
            yield block.get("id"), block.get("name"), block.get("input", block.get("arguments"))


def _played(session: Session, trace: Trace, how: Playing, name: str, tally: _Tally) -> Played:
    took = sorted(tally.took) or [0.0]
    times = Times(
        mean=round(sum(took) / len(took), 3),
        p50=round(took[len(took) // 2], 3),
        p99=round(took[min(len(took) * 99 // 100, len(took) - 1)], 3),
        longest=round(took[-1], 3),
        total=round(sum(took) / 1000, 3),
    )
    return Played(
        trace=trace.name,
        session=name,
        harness=how.harness,
        codec=trace.codec,
        model=trace.model,
        window=how.window,
        requests=len(trace.steps),
        passes=causes(tally.seen),
        landed=tally.landed,
        freed=tally.freed,
        queued=len(session.core.hot().state.queue),
        largest_request=tally.largest_request,
        largest_prompt=tally.largest_prompt,
        refusals=dict(sorted(tally.refusals.items())),
        overflows=tally.overflows,
        reduces=tally.reduces,
        refused_reduces=tally.refused_reduces,
        usage=dict(sorted(tally.usage.items())),
        pass_ms=times,
        skipped=trace.skipped,
        ignored=trace.ignored,
        tail=len(trace.tail),
    )

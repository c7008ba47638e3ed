"""Playing a recorded session request by request: its times, its agent's own drops, summaries beside it, and a provider
that answers: the recorded one as far as it applies, or a simulated one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import msgspec

from ...api import Engine, Request, Session
from ...domain import events as ev
from ...domain.arcs import call_part, is_reduce
from ...domain.costs import PLACEHOLDER_TOKENS
from ...domain.errors import InputError, OptionError, Refused
from ...domain.policy import Policy, make_policy
from ...domain.state import INLINE, TERSE, State
from ...domain.streams import session_stream
from ...projections.timeline import Cause, causes
from ..billing.profiles import Profile
from ..billing.records import REFUSED, SUMMARY, Record, made, stand_in
from ..models.summarizers import Summarizer
from ..models.tokens import tokenizer
from ..traces.model import Skipped, Step, Trace
from .history import Beside
from .provider import Answerer, Recorded, Simulated
from .usage import Whole
from .wirelog import WireLog

HARNESS = "trace"
"""Played sessions stand apart from those of real hosts in the store."""
WINDOW = 200_000

Progress = Callable[[int, int], None]
"""Called with the requests played and how many there are."""


class Playing(msgspec.Struct, frozen=True):
    """How a trace is played. ``window`` in tokens, 0 = unknown; ``session``: its id, empty for the trace's name.

    ``profile``: the cache of a simulated provider that answers, None = the recorded usage is told; ``cache_ttl``
    follows it unless the policy sets one. ``summarizer``: None = nothing is summarised. ``system_tokens``: a block of
    so many stands before everything. ``taken`` is given each record of the wire log.
    """

    session: str = ""
    harness: str = HARNESS
    window: int = WINDOW
    policy: Policy | None = None
    wire_log: BinaryIO | None = None
    profile: Profile | None = None
    summarizer: Summarizer | None = None
    system_tokens: int = 0
    taken: Callable[[Record], None] | None = None


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
    ``usage``: how often the usage was recorded, reduced, estimated, simulated, or not known. ``compartments``:
    stretches of history that were summarised; ``summary_calls``: calls of a model for that; ``failed_summaries``: runs
    that gave nothing.
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
    profile: str = ""
    summarizer: str = ""
    compartments: int = 0
    summary_calls: int = 0
    failed_summaries: int = 0

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
    summary_calls: int = 0


class _Stage(msgspec.Struct):
    """One play under way. ``at``: session time in ms UTC, 0 = none known yet."""

    session: Session
    trace: Trace
    how: Playing
    name: str
    model: str
    log: WireLog | None
    answerer: Answerer
    beside: Beside | None
    whole: Whole = msgspec.field(default_factory=Whole)
    tally: _Tally = msgspec.field(default_factory=_Tally)
    at: int = 0
    number: int = 0


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
    policy = _policy(how)
    beside = None if how.summarizer is None else Beside(how.summarizer, tokenizer())
    stage = _Stage(
        session=_session(engine, trace, how, name, trace.model, policy),
        trace=trace,
        how=how,
        name=name,
        model=trace.model,
        log=_log(trace, how, name),
        answerer=Recorded() if how.profile is None else Simulated(how.profile),
        beside=beside,
    )
    core = stage.session.core
    own, core.summaries = core.summaries, beside
    messages: list[bytes] = []
    commands: set[str] = set()
    try:
        for index, step in enumerate(trace.steps):
            if step.model and step.model != stage.model:
                stage.model = step.model
                stage.session = _session(engine, trace, how, name, step.model, policy)
            stage.at = max(stage.at, step.at)
            if beside is not None:
                beside.look(core, stage.at)  # an idle gap is when a background run would have been made
            _reduce(stage.session, trace.codec, step, index, commands, stage.tally)
            messages += step.messages
            _step(stage, step, messages)
            if progress is not None:
                progress(index + 1, len(trace.steps))
        _added(stage)
    finally:
        core.summaries = own
        if beside is not None:
            beside.close()
    return _played(stage)


def _policy(how: Playing) -> Policy | None:
    """Return the policy: how long the cache lives is the profile's, unless it was set (convention 25)."""
    if how.profile is None or (how.policy is not None and "cache_ttl" in how.policy.model_fields_set):
        return how.policy
    given = {} if how.policy is None else how.policy.model_dump(exclude_unset=True)
    return make_policy({**given, "cache_ttl": str(how.profile.lifetime)})


def _session(engine: Engine, trace: Trace, how: Playing, name: str, model: str, policy: Policy | None) -> Session:
    return engine.session(
        name, how.harness, codec=trace.codec, model=model or None, context_limit=how.window, policy=policy
    )


def _log(trace: Trace, how: Playing, name: str) -> WireLog | None:
    if how.wire_log is None and how.profile is None and how.taken is None:
        return None
    marks = how.profile is not None and how.profile.way != "steps"
    return WireLog(how.wire_log, name, trace.codec, tokenizer(), marks, stand_in(how.system_tokens))


def _step(stage: _Stage, step: Step, messages: list[bytes]) -> None:
    """Make one request, write it down, and have it answered."""
    stage.number += 1
    tally, session, log = stage.tally, stage.session, stage.log
    before = session.core.hot().state.version
    request = _pass(session, stage.trace, messages, stage.at, tally)
    _added(stage)
    if request is None:
        if log is not None:
            code, tokens = _refusal(session, before)
            _put(stage, log.refusal(stage.at, stage.model, code, tokens, stage.number))
        return
    event = request.produced.event
    state = session.core.hot().state
    if not isinstance(event, ev.PassDeferred):
        tally.landed += len(event.landed)
        tally.freed += sum(_freed(state, number, mode) for number, mode in event.landed)
    tally.largest_request = max(tally.largest_request, event.tokens)
    record = None
    if log is not None:
        output = -1 if step.usage is None else step.usage.output
        record = log.take(request, state, session.core.hot().view, stage.at, stage.model, output)
    removed = stage.whole.removed(state, event.tokens, tally.freed)
    total = stage.answerer.weigh(step.usage, record, event.tokens, removed)
    over = total is not None and 0 < stage.how.window < total
    if record is not None:
        _put(stage, msgspec.structs.replace(record, kind=REFUSED, reasons=("overflow",)) if over else record)
    _answer(stage, request, record, total, over=over)


def _answer(stage: _Stage, request: Request, record: Record | None, total: int | None, *, over: bool) -> None:
    tally = stage.tally
    if over:
        assert total is not None
        tally.overflows += 1
        tally.largest_prompt = max(tally.largest_prompt, total)
        request.report_failure("overflow", limit=stage.how.window, used=total)
        return
    told = stage.answerer.answer(record)
    tally.usage["none" if told is None else told.source] += 1
    if told is None:
        return
    tally.largest_prompt = max(tally.largest_prompt, -1 if told.total is None else told.total)
    counts = msgspec.structs.astuple(told.usage)
    given, read, written, output = (count if count >= 0 else None for count in counts)
    request.report_usage(given, read, written, output)


def _added(stage: _Stage) -> None:
    """Write down calls of a model made for summaries: they came before what is written next."""
    if stage.beside is None:
        return
    for call in stage.beside.calls():
        stage.tally.summary_calls += 1
        block = made(f"summary call {stage.tally.summary_calls} of {stage.name}", call.input_tokens)
        record = Record(stage.name, stage.at, call.model, "", (block,), output_tokens=call.output_tokens, kind=SUMMARY)
        stage.answerer.added(record)
        _put(stage, record)


def _put(stage: _Stage, record: Record) -> None:
    if stage.log is not None:
        stage.log.put(record)
    if stage.how.taken is not None:
        stage.how.taken(record)


def _pass(session: Session, trace: Trace, messages: list[bytes], at: int, tally: _Tally) -> Request | None:
    now = at / 1000 if at > 0 else None
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


def _refusal(session: Session, before: int) -> tuple[str, int]:
    """Return code and tokens of the refusal a pass from version ``before`` ended in; a repeated one is not stored."""
    core = session.core
    start = min(before, core.hot().state.last_version - 1)
    found = [one.event for one in core.log.read(core.stream, max(start, 0))]
    last = next((one for one in reversed(found) if isinstance(one, ev.PassRefused)), None)
    return ("", 0) if last is None else (last.code, last.tokens)


def _freed(state: State, number: int, mode: str) -> int:
    tag = state.tags[number - 1]
    if mode in (INLINE, *TERSE):
        return 0  # it is still sent, if shorter
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
        if not isinstance(message, dict) or (codec != "openai-responses" and message.get("role") != "assistant"):
            continue
        for call, name, given in _calls(codec, message):
            if isinstance(name, str) and is_reduce(name) and isinstance(given, dict) and "drop" in given:
                yield str(call), given["drop"]


def _calls(codec: str, message: dict[str, Any]) -> Iterator[tuple[Any, Any, Any]]:
    if codec == "openai-chat":
        for call in message.get("tool_calls") or ():
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict):
                yield call.get("id"), function.get("name"), _decoded(function.get("arguments"))
        return
    if codec == "openai-responses":
        if message.get("type") == "function_call":
            yield message.get("call_id"), message.get("name"), _decoded(message.get("arguments"))
        return
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") in ("tool_use", "toolCall"):
            yield block.get("id"), block.get("name"), block.get("input", block.get("arguments"))


def _decoded(arguments: Any) -> Any:
    try:
        return msgspec.json.decode(arguments or "null")
    except (msgspec.MsgspecError, TypeError):
        return None


def _played(stage: _Stage) -> Played:
    trace, how, tally, state = stage.trace, stage.how, stage.tally, stage.session.core.hot().state
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
        session=stage.name,
        harness=how.harness,
        codec=trace.codec,
        model=trace.model,
        window=how.window,
        requests=len(trace.steps),
        passes=causes(tally.seen),
        landed=tally.landed,
        freed=tally.freed,
        queued=len(state.queue),
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
        profile="" if how.profile is None else how.profile.name,
        summarizer="" if how.summarizer is None else how.summarizer.name,
        compartments=len(state.compartments),
        summary_calls=tally.summary_calls,
        failed_summaries=0 if stage.beside is None else len(stage.beside.failures),
    )

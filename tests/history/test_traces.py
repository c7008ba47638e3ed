"""Real recorded sessions with a past: on a usual window, and on one they fill half as far again as they may.

The summariser works in the caller's thread. Every request is judged by the checker that knows nothing of the product;
every message behind the cut is had back and held against the trace file (issue 3, "What it must show", 2).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import checker
import pytest

import foldlog
from foldlog.adapters.models.summarizers import Extractive
from foldlog.adapters.models.tokens import tokenizer
from foldlog.adapters.traces.model import Trace, messages_of
from foldlog.adapters.traces.reader import load
from foldlog.domain.window import EMERGENCY
from support.past import Clock, opened, tail

SHARED = Path(__file__).resolve().parents[2] / ".." / "shared" / "traces"
RECORDED = ("claude-code-a-opus46", "claude-code-b-sonnet45", "mini-swe-a-sqlfluff-deepseek", "pi-a-opus45")
USUAL, HOLDS_ALL = 200_000, 2_000_000
THRESHOLD = 65
SAMPLE = {"anthropic": 60, "openai-chat": 60, "pi": 20}


@dataclass
class Result:
    levels: dict[str, int] = field(default_factory=dict)
    moved: set[int] = field(default_factory=set)
    largest: int = 0
    growth: int = 0
    emergencies: int = 0
    judged: int = 0
    whole: int = 0


class Judge:
    """Judges each request: what a deferred pass adds is fed to the checker, a rebuild begins anew."""

    def __init__(self, codec: str) -> None:
        self.codec = codec
        self.state: Any = None
        self.raws: list[bytes] = []

    def request(self, request: foldlog.Request, *, sample: bool) -> int:
        """Assert that the request is valid; return 1 where the whole of it was judged."""
        grown = request.level == "defer" and bool(self.raws) and not any("host" in why for why in request.reasons)
        if not grown:
            self.raws = []
            self.state = self._fresh(request)
        new = [raw for delta in request.delta for raw in delta.json] if grown else list(request.messages_json)
        self.raws += new
        if self.state is not None:
            for raw in new:
                self.state.feed(json.loads(raw))
            assert self.state.verdict() == [], request
        if not sample and grown:
            return 0
        assert list(request.messages_json) == self.raws, "what was judged is not what is sent"
        assert self._whole(request) == [], request
        return 1

    def _fresh(self, request: foldlog.Request) -> Any:
        if self.codec == "openai-chat":
            return checker.openai.Incremental(request.tools)
        return checker.anthropic.Incremental(request.system, request.tools) if self.codec == "anthropic" else None

    def _whole(self, request: foldlog.Request) -> list[Any]:
        if self.codec == "pi":
            return checker.pi.check(request.messages, request.system or "")
        sent = {"messages": request.messages, "tools": request.tools}
        if self.codec == "openai-chat":
            return checker.openai.check(sent)
        return checker.anthropic.check({**sent, "system": request.system})


def played(trace: Trace, engine: foldlog.Engine, clock: Clock, window: int, *, judged: bool) -> Result:
    """Play ``trace``; the provider counts what we estimate. A refusal ends the test."""
    session = engine.session(trace.name, codec=trace.codec, model=trace.model, context_limit=window)
    result, judge, messages, before = Result(), Judge(trace.codec), [], 0
    for index, step in enumerate(trace.steps):
        messages += step.messages
        clock.now = max(clock.now, step.at)
        request = session.prepare(messages, system=trace.system, tools=trace.tools, now=clock.now / 1000)
        event, used = request._produced.event, request.usage_estimate
        result.levels[request.level] = result.levels.get(request.level, 0) + 1
        result.moved.add(session.core.hot().state.cut)
        decision = event.decision
        if decision is not None and decision.percent >= EMERGENCY:
            result.emergencies += 1
        else:
            result.largest = max(result.largest, used)
        if request.level == "defer":
            result.growth = max(result.growth, used - before)
        assert used <= window
        if judged:
            every, state = SAMPLE[trace.codec], session.core.hot().state
            result.judged += 1
            if judge.request(request, sample=index % every == every - 1):
                result.whole += 1
                assert set(tail(request)) <= set(state.path[state.start() :])
        request.report_usage(input=used, now=clock.now / 1000)
        before = used
    return result


def values(line: bytes) -> list[Any]:
    """Return every JSON object in a line of a trace, as deep as they stand."""
    found: list[Any] = []
    waiting = [json.loads(line)]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            found.append(one)
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return found


def in_file(path: Path) -> set[str]:
    """Return every object and every text of a trace file, canonically, read with nothing of the product."""
    found: set[str] = set()
    for line in path.read_bytes().split(b"\n"):
        if line.strip():
            for one in values(line):
                found.add(canonical(one))
                found |= {canonical(value) for value in one.values() if isinstance(value, str)}
    return found


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def recovered(session: foldlog.Session, trace: Trace, known: set[str]) -> tuple[int, int]:
    """Expand every message behind the cut; return (messages compared, parts found in the file as they stand there).

    The whole message must be what the host handed over; each block of it that is not of the reader's making must stand
    in the trace file.
    """
    state = session.core.hot().state
    behind = state.path[: state.start()]
    given = [raw for raw in messages_of(trace) if json.loads(raw)["role"] != "system"]
    parts = 0
    for place, m in enumerate(behind):
        (reply,) = session.expand(m, m)
        assert reply.m == m
        assert reply.json == given[place]
        content = json.loads(reply.json).get("content", [])  # a command's own entry has none
        for block in content if isinstance(content, list) else [content]:
            whole = canonical(block) in known
            text = block if isinstance(block, str) else block.get("text")
            parts += whole or (isinstance(text, str) and canonical(text) in known)
    return len(behind), parts


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.rule("HIST-38", "INV-4", "LAW-5", "PROP-2")
def test_a_recorded_session_goes_on_beyond_its_window(name, capsys):
    path = SHARED / f"{name}.jsonl"
    if not path.exists():
        pytest.skip("the shared traces are not beside this checkout")
    trace, known = load(path), in_file(path)
    with opened("memory:") as engine:
        peak = played(trace, engine, Clock(), HOLDS_ALL, judged=False).largest
    tight = int(peak / (1.5 * THRESHOLD / 100))
    total: dict[str, int] = {}
    for window in (USUAL, tight):
        clock = Clock()
        clock.now = trace.steps[0].at
        with opened("memory:", Extractive(tokenizer()), clock=clock) as engine:
            result = played(trace, engine, clock, window, judged=True)
            session = engine.session(trace.name)
            state = session.core.hot().state
            compared, parts = recovered(session, trace, known)
            audit = engine.audit(trace.name)
            made = len(state.compartments)
        faults = [one for one in audit.differences if one.kind != "wire"]
        with capsys.disabled():
            levels = ", ".join(f"{level} {count}" for level, count in sorted(result.levels.items()))
            print(
                f"\n{name} in {window:,}: {result.judged} requests valid ({result.whole} judged whole), {levels}; "
                f"largest prompt {result.largest:,} (threshold {window * THRESHOLD // 100:,}, growth "
                f"{result.growth:,}, {result.emergencies} emergencies); {made} compartments, cut moved "
                f"{len(result.moved) - 1} times; "
                f"{compared} covered messages equal, {parts} of their parts found in the file; {audit.passes} passes, "
                f"{len(faults)} differences"
            )
        assert faults == []
        assert audit.passes == result.judged == len(trace.steps)
        assert result.largest <= window * THRESHOLD // 100 + result.growth
        assert result.levels["hard"] > 0
        crossed = peak > window * THRESHOLD // 100
        if crossed:
            assert len(result.moved) > 1
            assert made > 0
            assert compared > 0
            assert parts > compared // 2
            assert result.levels["hard"] + result.levels.get("soft", 0) > 1
        for level, count in result.levels.items():
            total[level] = total.get(level, 0) + count
    assert total["hard"] > 0

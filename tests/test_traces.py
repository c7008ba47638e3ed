"""Real recorded and generated sessions, played whole (issue 2, "What it must show", 2 and 3).

While they play, the agent's part is taken: old tool results are marked as spent. Every request is judged by the checker
that knows nothing of the product, every part behind a drop is had back by its number and held against the trace file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import checker
import msgspec
import pytest

import foldlog
from foldlog.adapters.simulate.play import reduces
from foldlog.adapters.traces.generator import generate
from foldlog.adapters.traces.model import Trace
from foldlog.adapters.traces.reader import load, write

SHARED = Path(__file__).resolve().parents[1] / ".." / "shared" / "traces"
RECORDED = (
    "claude-code-a-opus46", "claude-code-b-sonnet45", "mini-swe-a-sqlfluff-deepseek", "pi-a-opus45",
)  # fmt: skip
CODECS = ("anthropic", "openai-chat", "pi", "openai-responses")
HOLDS_ALL = 2_000_000
SAMPLE = {"anthropic": 60, "openai-chat": 60, "pi": 15, "openai-responses": 60}
"""Every so many requests the whole request is built and judged, besides the one grown message by message. Pi's results
wait for the end of their turn before they are a message on the wire, so its requests are judged whole more often."""


@dataclass
class Result:
    levels: dict[str, int] = field(default_factory=dict)
    judged: int = 0
    whole: int = 0
    queued: set[int] = field(default_factory=set)


class Judge:
    """Judges each request of a session: what a deferred pass adds is fed to the checker, a rebuild begins anew."""

    def __init__(self, codec: str) -> None:
        self.codec = codec
        self.raws: list[bytes] = []
        self.state: Any = None
        self.pi: Any = None

    def request(self, request: foldlog.Request, *, sample: bool) -> int:
        """Assert that the request is valid; return how many whole requests were judged."""
        diverged = any("host" in why for why in request.reasons)
        grown = request.level == "defer" and self.state is not None and not diverged
        if grown:
            new = [raw for delta in request.delta for raw in delta.json]
        else:
            self._start(request)
            new = list(request.messages_json)
            self.raws = []
        self.raws += new
        for raw in new:
            message = json.loads(raw)
            for wire in self.pi.take(message) if self.pi else (message,):
                self.state.feed(wire)
        assert self._verdict() == [], request
        if not sample and grown:
            return 0
        assert list(request.messages_json) == self.raws, "what was judged is not what is sent"
        assert self._whole(request) == [], request
        return 1

    def _start(self, request: foldlog.Request) -> None:
        self.pi = checker.pi.Converter() if self.codec == "pi" else None
        if self.codec == "openai-responses":
            self.state = checker.responses.Incremental(request.tools, request.system)
        elif self.codec == "openai-chat":
            self.state = checker.openai.Incremental(request.tools)
        else:
            anthropic = self.codec == "anthropic"
            self.state = checker.anthropic.Incremental(
                request.system if anthropic else None, request.tools if anthropic else None
            )

    def _verdict(self) -> list[Any]:
        if self.pi is None:
            return self.state.verdict()
        waiting = bool(self.pi._results or self.pi._open)  # until their turn ends: judged with the next input
        return [] if waiting else self.state.verdict()

    def _whole(self, request: foldlog.Request) -> list[Any]:
        if self.codec == "pi":
            return checker.pi.check(request.messages, request.system or "")
        sent = {"messages": request.messages, "tools": request.tools}
        if self.codec == "openai-responses":
            return checker.responses.check(
                {"input": request.messages, "tools": request.tools, "instructions": request.system}
            )
        if self.codec == "openai-chat":
            return checker.openai.check(sent)
        return checker.anthropic.check({**sent, "system": request.system})


def played(
    trace: Trace, engine: foldlog.Engine, *, window: int, droppable: Any, flush: int = 0
) -> tuple[foldlog.Session, Result]:
    """Play ``trace``, marking old tool results that ``droppable`` accepts; ``flush``: every so many requests."""
    session = engine.session(trace.name, codec=trace.codec, model=trace.model, context_limit=window)
    judge, result, messages = Judge(trace.codec), Result(), []
    for index, step in enumerate(trace.steps):
        for call, drop in reduces(trace.codec, step.messages):
            session.reduce(drop, command=call)
        if index % 20 == 19:
            state = session.core.hot().state
            old = [number for number in state.tools_order[:-25] if state.tags[number - 1].status == "active"]
            chosen = [number for number in old if number not in state.queue and droppable(session, number)]
            if chosen:
                session.reduce(",".join(map(str, chosen[:200])))
        if flush and index % flush == flush - 1:
            session.flush()
        messages += step.messages
        request = session.prepare(
            messages, system=trace.system, tools=trace.tools, now=step.at / 1000 if step.at else None
        )
        result.levels[request.level] = result.levels.get(request.level, 0) + 1
        result.judged += 1
        every = SAMPLE[trace.codec]
        result.whole += judge.request(request, sample=index % every == every - 1)
        if step.usage and not session.status().dropped:
            counts = msgspec.structs.asdict(step.usage)
            request.report_usage(**{name: count for name, count in counts.items() if count >= 0})
    return session, result


def results_of(path: Path) -> tuple[bytes, dict[str, Any]]:
    """Read a trace file with nothing of the product: its bytes, and the content of each tool result by call id."""
    body = path.read_bytes()
    found: dict[str, Any] = {}

    def walk(value: Any) -> None:
        if isinstance(value, list):
            for one in value:
                walk(one)
        elif isinstance(value, dict):
            call = call_id(value)
            if isinstance(call, str) and ("content" in value or "output" in value):
                found.setdefault(call, value.get("content", value.get("output")))
            for one in value.values():
                walk(one)

    for line in body.split(b"\n"):
        if line.strip():
            walk(json.loads(line))
    return body, found


def call_id(value: dict[str, Any]) -> Any:
    """Return the id by which a tool result of any codec names its call."""
    names = ("tool_use_id", "toolCallId", "tool_call_id", "call_id")
    return next((value[name] for name in names if value.get(name)), None)


def call_of(raw: bytes) -> str:
    return str(call_id(json.loads(raw)))


def recovered(session: foldlog.Session, body: bytes, results: dict[str, Any]) -> int:
    """Expand every dropped part and hold it against the file; return how many were compared."""
    compared = 0
    state = session.core.hot().state
    for number, tag in enumerate(state.tags, 1):
        if tag.status != "dropped":
            continue
        (reply,) = session.expand(number)
        assert reply.tag == number
        if tag.kind == "tool":
            held = msgspec.json.decode(reply.json, type=dict[str, msgspec.Raw])
            content = bytes(held["output"] if "output" in held else held["content"])
            assert content in body, (number, content[:200])
            assert json.loads(content) == results[call_of(reply.json)], number
        else:
            assert reply.json in body, (number, reply.json[:200])
        compared += 1
    return compared


def shared(name: str) -> Path:
    path = SHARED / f"{name}.jsonl"
    if not path.exists():
        pytest.skip("the shared traces are not beside this checkout")
    return path


def show(name: str, result: Result, audit: Any, dropped: int, compared: int, capsys: Any) -> None:
    with capsys.disabled():
        levels = ", ".join(f"{level} {count}" for level, count in sorted(result.levels.items()))
        print(
            f"\n{name}: {result.judged} requests valid ({result.whole} judged whole), {levels}; {dropped} drops "
            f"landed, {compared} recovered and equal to the file; {audit.passes} passes verified, "
            f"{len(audit.differences)} differences"
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.rule("PROP-2", "LAW-5")
def test_a_recorded_session_plays_to_its_end(name, capsys):
    path = shared(name)
    body, results = results_of(path)
    trace = load(path)

    def droppable(session: foldlog.Session, number: int) -> bool:
        return call_of(session.expand(number)[0].json) in results  # others were closed by the host and are in no file

    with foldlog.Engine.open("memory:", summarizer=None) as engine:
        session, result = played(trace, engine, window=HOLDS_ALL, droppable=droppable, flush=50)
        audit = engine.audit(trace.name)
        dropped = session.status().dropped
        compared = recovered(session, body, results)
        show(name, result, audit, dropped, compared, capsys)
    assert result.judged == len(trace.steps) == audit.passes
    assert audit.differences == ()
    assert compared == dropped > 0
    assert result.whole > 0


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("seed", "requests", "window"), [(7, 160, 90_000), (11, 90, 400_000)])
@pytest.mark.rule("PROP-2", "LAW-5")
def test_a_generated_session_drops_and_rebuilds(codec, seed, requests, window, tmp_path, capsys):
    trace = generate(seed, requests, codec=codec)
    path = tmp_path / "generated.jsonl"
    write(trace, path)
    body, results = results_of(path)
    with foldlog.Engine.open("memory:", summarizer=None) as engine:
        session, result = played(trace, engine, window=window, droppable=lambda *_: True, flush=40)
        audit = engine.audit(trace.name)
        dropped = session.status().dropped
        compared = recovered(session, body, results)
        show(f"generated-{seed} ({codec})", result, audit, dropped, compared, capsys)
    assert result.judged == requests == audit.passes
    assert audit.differences == ()
    assert compared == dropped > 0
    assert result.levels["soft+"] > 0
    assert result.levels["hard"] > 0

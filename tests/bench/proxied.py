"""What a proxied request costs that extends the last one: taken apart, a deferred pass, put together again."""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
from bench.floor import Floor

import foldlog
from foldlog.adapters.proxy.protocols import protocol_for
from foldlog.adapters.proxy.sessions import Opening, Sessions
from foldlog.adapters.traces.generator import stream
from foldlog.projections.wire import CURRENT, wire
from foldlog.projections.wire.v1 import spans

TOKENS = (200_000, 1_000_000)
BYTES_A_TOKEN = 4
SAMPLES = 40
HEADERS = {"user-agent": "claude-cli/2", "x-claude-code-session-id": "bench"}
FRONT = {
    "model": "claude-sonnet-4-5",
    "system": [{"type": "text", "text": "You are an agent. " * 1_500, "cache_control": {"type": "ephemeral"}}],
    "tools": [{"name": f"tool{i}", "description": "what it does " * 150, "input_schema": {}} for i in range(20)],
}
REST = {"max_tokens": 32_000, "thinking": {"type": "enabled", "budget_tokens": 31_999}, "stream": True}


def measure(folder: Path, tokens: int) -> Iterator[tuple[float, ...]]:
    """Yield seconds of each request: (ours, of it the pass, handling the bytes, an append, the floor)."""
    engine = foldlog.Engine.open(f"sqlite:///{folder / f'proxied-{tokens}'}.db", summarizer=None)
    passes: list[float] = []
    sessions = Sessions(engine, lambda asked: _open(engine, asked, passes))
    protocol = protocol_for("POST", "/v1/messages")
    assert protocol is not None
    floor = Floor(folder / f"proxied-{tokens}-floor.db")
    history: list[bytes] = []
    last = b""
    for step in _steps(stream(7), history, tokens * BYTES_A_TOKEN):
        raw = _body([*history, *step])
        begin = perf_counter()
        admitted = sessions.admit(protocol, HEADERS, raw)
        prepared = sessions.prepare(admitted)
        sessions.done(admitted)
        ours = perf_counter() - begin
        history += step
        if last and prepared.request.level == "defer":
            yield ours, passes[-1], _handled(last, raw, step), _append(floor, step), floor.measure(step, _texts(step))
        last = raw


def _open(engine: foldlog.Engine, asked: Opening, passes: list[float]) -> foldlog.Session:
    session = engine.session(
        asked.id, asked.harness, asked.codec, asked.model, 1_000_000_000, policy={"cache_ttl": "never"}
    )
    made = session.prepare

    def prepare(*given: Any, **named: Any) -> foldlog.Request:
        begin = perf_counter()
        try:
            return made(*given, **named)
        finally:
            passes.append(perf_counter() - begin)

    session.prepare = prepare  # type: ignore[method-assign]
    return session


def _steps(steps: Iterator[Any], history: list[bytes], size: int) -> Iterator[list[bytes]]:
    """Yield first one step of the whole length, then as many small ones as are measured."""
    whole: list[bytes] = []
    held = 0
    for step in steps:
        whole += step.messages
        held += sum(map(len, step.messages))
        if held >= size:
            break
    yield whole
    for step in itertools.islice(steps, SAMPLES):
        yield list(step.messages)


def _body(messages: list[bytes]) -> bytes:
    newest = msgspec.json.decode(messages[-1])
    if isinstance(newest["content"], str):
        newest["content"] = [{"type": "text", "text": newest["content"]}]
    newest["content"][-1]["cache_control"] = {"type": "ephemeral"}
    listed = b",".join([*messages[:-1], msgspec.json.encode(newest)])
    front, rest = (json.dumps(part, separators=(",", ":")).encode() for part in (FRONT, REST))
    return front[:-1] + b',"messages":[' + listed + b"]," + rest[1:]


def _handled(last: bytes, raw: bytes, step: list[bytes]) -> float:
    """Return the seconds of comparing with the last body, copying this one, and scanning what is new."""
    begin = perf_counter()
    raw.startswith(memoryview(last)[: len(last) - 300])
    b"".join((memoryview(raw)[:100], memoryview(raw)[100:]))
    for one in step:
        spans.value_end(one, 0)
    return perf_counter() - begin


def _append(floor: Floor, step: list[bytes]) -> float:
    begin = perf_counter()
    floor.connection.execute("BEGIN IMMEDIATE")
    floor.connection.execute("INSERT INTO log (state) VALUES (?)", (b"".join(step),))
    floor.connection.execute("COMMIT")
    return perf_counter() - begin


def _texts(step: list[bytes]) -> list[str]:
    texts: list[str] = []
    for raw in step:
        wire(CURRENT).read("anthropic", raw, lambda text: texts.append(text) or 0)  # type: ignore[func-returns-value]
    return texts


def median(samples: list[tuple[float, ...]]) -> tuple[float, ...]:
    """Return the median of each column."""
    return tuple(statistics.median(column) for column in zip(*samples, strict=True))

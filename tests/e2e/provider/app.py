"""The scripted provider: three wires, one script, caches that are really kept, and failures on demand."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from . import anthropic, blocks, chat, pictures, record, responses, script, signing
from .answers import Answer
from .cache import AnthropicCache, Billed, OpenAICache
from .scenario import Failure, Scenario

BUSY = "Overloaded"
RATE = "This request would exceed your account's rate limit. Please try again later."
_SESSION_HEADERS = ("x-claude-code-session-id", "x-session-id", "thread-id", "session-id", "session_id")


@dataclass(slots=True)
class State:
    """What the provider remembers: caches, who was answered with thinking, the last prompt of each conversation."""

    scenario: Scenario
    folder: Path
    marked: AnthropicCache = field(default_factory=AnthropicCache)
    automatic: OpenAICache = field(default_factory=OpenAICache)
    offset: float = 0.0
    count: int = 0
    thought: set[str] = field(default_factory=set)
    failed: dict[int, int] = field(default_factory=dict)
    last: dict[str, tuple[int, list[blocks.Block]]] = field(default_factory=dict)

    @property
    def now(self) -> float:
        """Seconds since the epoch on the provider's clock."""
        return time.time() + self.offset


@dataclass(frozen=True, slots=True)
class Wire:
    """One of the three: its module, its block order, and its name."""

    name: str
    module: ModuleType
    blocks: Callable[[dict[str, Any]], list[blocks.Block]]


WIRES = {
    "/v1/messages": Wire("anthropic", anthropic, blocks.anthropic),
    "/v1/chat/completions": Wire("openai-chat", chat, blocks.chat),
    "/v1/responses": Wire("openai-responses", responses, blocks.responses),
}


def make_app(scenario: Scenario, folder: Path) -> Starlette:
    """Return the provider as an ASGI app that records into ``folder``."""
    state = State(scenario, folder, AnthropicCache(scenario.minimum))

    async def model(request: Request) -> Response:
        return await _model(state, WIRES[request.url.path], request)

    async def count(request: Request) -> Response:
        body = await request.json()
        return JSONResponse({"input_tokens": sum(block.tokens for block in blocks.anthropic(body))})

    async def control(request: Request) -> Response:
        asked = await request.json()
        state.offset += float(asked.get("advance", 0))
        return JSONResponse({"now": state.now})

    async def models(request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": "scripted-1", "object": "model", "type": "model"}]})

    async def hello(request: Request) -> Response:
        return Response()

    routes = [Route(path, model, methods=["POST"]) for path in WIRES]
    return Starlette(
        routes=[
            *routes,
            Route("/v1/messages/count_tokens", count, methods=["POST"]),
            Route("/v1/models", models),
            Route("/control", control, methods=["POST"]),
            Route("/", hello),
            Route("/api/hello", hello),
        ]
    )


def _conversation(request: Request, body: dict[str, Any]) -> str:
    known = next((request.headers[name] for name in _SESSION_HEADERS if name in request.headers), "")
    agent = request.headers.get("x-claude-code-agent-id", "")
    return f"{known or body.get('prompt_cache_key') or '-'}{'/' + agent if agent else ''}"


async def _model(state: State, wire: Wire, request: Request) -> Response:
    raw = await request.body()
    state.count += 1
    try:
        body = json.loads(raw)
        prompt = wire.blocks(body)
        seen = wire.module.see(body)
    except (ValueError, KeyError, TypeError, AttributeError) as broken:
        line = record.Record(state.count, time.time(), wire.name, request.url.path, "", "", False, "bad", "", 0, 400)
        line.message = f"not a request: {broken}"
        record.write(state.folder, line, raw)
        return JSONResponse(wire.module.error(400, line.message), 400)
    at = script.place(seen)
    line = record.Record(
        state.count,
        time.time(),
        wire.name,
        request.url.path,
        str(body.get("model")),
        _conversation(request, body) + ("" if at.kind == "step" else f"#{at.kind}"),
        bool(body.get("stream")),
        at.kind,
        at.track,
        at.step,
        tools=len(seen.tools),
        thinking=sum(b'"type":"thinking"' in block.data or b'"type":"reasoning"' in block.data for block in prompt),
        blocks=record.digests(prompt),
        pictures=pictures.shown(body),
    )
    line.before, line.shared = _compare(state, line, prompt)
    failure = _due(state, at)
    refused = _refusal(state, wire, body, prompt, failure, line)
    if refused is not None:
        record.write(state.folder, line, raw)
        return refused
    state.last[line.conversation] = (line.n, prompt)
    scope = f"{line.model}|{body.get('prompt_cache_key') or ''}"
    cache: Any = state.marked if wire.name == "anthropic" else state.automatic
    billed = cache.bill(scope, prompt, state.now)
    line.read, line.write, line.plain = billed.read, billed.write, billed.plain
    answer = _answer(state, wire, body, prompt, seen, at, billed)
    line.calls = tuple(tool.name for _, tool, _ in answer.calls)
    line.failure = failure.kind if failure else ""
    record.write(state.folder, line, raw)
    if failure and failure.kind == "slow":
        await asyncio.sleep(failure.seconds)
    if not line.stream:
        return JSONResponse(wire.module.whole(answer))
    return StreamingResponse(_sent(wire, answer, failure), media_type="text/event-stream")


def _compare(state: State, line: record.Record, prompt: list[blocks.Block]) -> tuple[int, int]:
    """Return the number of the conversation's last answered request and the tokens both begin with."""
    before, previous = state.last.get(line.conversation, (0, []))
    return before, sum(block.tokens for block in prompt[: blocks.shared(previous, prompt)])


def _due(state: State, at: script.Place) -> Failure | None:
    for number, failure in enumerate(state.scenario.failures):
        hits = at.kind == "step" and (failure.track, failure.step) == (at.track, at.step)
        if hits and state.failed.get(number, 0) < failure.times:
            state.failed[number] = state.failed.get(number, 0) + 1
            return failure
    return None


def _refusal(
    state: State,
    wire: Wire,
    body: dict[str, Any],
    prompt: list[blocks.Block],
    failure: Failure | None,
    line: record.Record,
) -> Response | None:
    """Return the error answer where there is one, and write into ``line`` what it was."""

    def refuse(status: int, message: str, kind: str, headers: dict[str, str] | None = None) -> Response:
        line.status, line.message, line.failure = status, message, kind
        if message == responses.OVERFLOW and wire.name == "openai-responses" and line.stream:
            line.status = 200  # there it is said inside the stream
            return Response(responses.error_event(message), media_type="text/event-stream")
        return JSONResponse(wire.module.error(status, message), status, headers)

    kind = failure.kind if failure else ""
    if kind in {"429", "529"}:
        status = int(kind) if wire.name == "anthropic" or kind == "429" else 503
        return refuse(status, BUSY if kind == "529" else RATE, kind, {"retry-after": "1"})
    used = sum(block.tokens for block in prompt)
    if kind == "overflow" or used > state.scenario.window:
        limit = (failure.limit if failure else 0) or state.scenario.window
        used = (failure.used if failure else 0) or used
        words = (failure.words if failure else "") or wire.module.OVERFLOW
        return refuse(400, words.format(used=used, limit=limit), "overflow")
    most = state.scenario.pictures
    if most and len(line.pictures) > most:
        return refuse(400, wire.module.PICTURES.format(count=len(line.pictures), most=most), "pictures")
    if state.scenario.check:
        wrong = wire.module.complaints(body)
        if not wrong and wire.name == "anthropic":
            wrong = signing.anthropic_complaint(body, prompt, state.thought)
        if wrong:
            return refuse(400, wrong, "invalid")
    return None


def _answer(
    state: State,
    wire: Wire,
    body: dict[str, Any],
    prompt: list[blocks.Block],
    seen: script.Seen,
    at: script.Place,
    billed: Billed,
) -> Answer:
    at, step, made = script.playable(state.scenario, at, seen, sum(block.tokens for block in prompt))
    name = f"{at.track}_{at.step:04d}"
    wants = wire.name == "openai-responses" or (body.get("thinking") or {}).get("type") in {"enabled", "adaptive"}
    think = step.think if wants and wire.name != "openai-chat" else ""
    if think:
        state.thought.add(name)
    prefix = list(blocks.prefixes(prompt))[-1] if state.scenario.bound and wire.name == "anthropic" else None
    signature = signing.sign(think, name, prefix) if think else ""
    head = "toolu" if wire.name == "anthropic" else "call"
    calls = tuple((f"{head}_{name}_{index}n{state.count}", *each) for index, each in enumerate(made))
    return Answer(state.count, str(body.get("model")), step.say, think, signature, calls, billed)


async def _sent(wire: Wire, answer: Answer, failure: Failure | None) -> AsyncIterator[bytes]:
    kind = failure.kind if failure else ""
    pieces: Iterator[bytes] = wire.module.stream(answer)
    if kind not in {"cut", "error_event", "stall"}:
        for piece in pieces:
            yield piece
        return
    whole = list(pieces)
    middle = max(3, len(whole) // 2)
    for piece in whole[:middle]:
        yield piece
        await asyncio.sleep(0)
    if failure and kind == "stall":
        await asyncio.sleep(failure.seconds)
        for piece in whole[middle:]:
            yield piece
        return
    if kind == "error_event":
        yield wire.module.error_event(BUSY)
        return
    raise ConnectionResetError("the script cuts this stream")

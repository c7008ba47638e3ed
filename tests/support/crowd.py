"""Requests that overlap, in one event loop: a provider that follows a script, and clients that may go away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import httpx
import msgspec
from starlette.types import ASGIApp

from support.three_wires import PATHS, answer

KEY = "x-key"
"""The header that names a request to the provider's script."""
FULL = "prompt is too long: 16500 tokens > 16000 maximum"
FAILURES = {429: "rate_limit_error", 500: "api_error", 529: "overloaded_error"}


class Step(msgspec.Struct, frozen=True):
    """What the provider does with a request.

    ``end``: ``whole``, ``json`` (an answer in one piece), ``hangs``, ``cut`` (behind ``at`` bytes), ``error`` and
    ``full`` (an event behind a part of the answer), ``unread`` (no answer), ``refused`` (by ``status``), ``too_long``.
    ``said``, ``calls``: what the model puts out.
    """

    end: str
    said: str = ""
    calls: tuple[str, ...] = ()
    at: int = 0
    status: int = 0


class Sent(msgspec.Struct):
    """One request as the provider got it, and what it sent back. ``id``: of its answer."""

    key: str
    id: str
    body: bytes
    step: Step
    status: int = 0
    given: bytes = b""


def output(wire: str, step: Step) -> list[Any]:
    """What the model put out, as the client repeats it."""
    made = answer(wire, step.said, list(step.calls), "", "")
    return made[: 1 + len(step.calls)] if wire == "responses" else made[:1]


def whole(wire: str, id: str, step: Step, tokens: int) -> dict[str, Any]:
    """An answer that is no stream."""
    (message, *_), made = (found := output(wire, step)), found
    if wire == "anthropic":
        usage = {"input_tokens": tokens, "output_tokens": 5}
        return {"id": id, "type": "message", **message, "stop_reason": "end_turn", "usage": usage}
    if wire == "openai":
        usage = {"prompt_tokens": tokens, "completion_tokens": 5}
        return {"id": id, "choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
    usage = {"input_tokens": tokens, "output_tokens": 5}
    return {"id": id, "object": "response", "status": "completed", "output": made, "usage": usage}


def stream(wire: str, id: str, step: Step, tokens: int) -> bytes:
    """An answer as server-sent events; an error of the script comes behind the first block."""
    error = {"type": "invalid_request_error", "message": FULL, "code": "context_length_exceeded"}
    if step.end == "error":
        error = {"type": "overloaded_error", "message": "Overloaded", "code": "server_error"}
    begin, blocks, end, failure = {"anthropic": _messages, "openai": _chat, "responses": _responses}[wire](
        whole(wire, id, step, tokens), error
    )
    told = [*begin, blocks[0], failure] if step.end in ("error", "full") else [*begin, *blocks, *end]
    return b"".join(b"data: " + (json.dumps(one).encode() if one else b"[DONE]") + b"\n\n" for one in told)


def _messages(made: dict[str, Any], error: dict[str, str]) -> tuple[list[Any], list[Any], list[Any], Any]:
    blocks = [
        {"type": "content_block_start", "index": index, "content_block": block}
        for index, block in enumerate(made["content"])
    ]
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}
    begin = {"type": "message_start", "message": {**made, "content": [], "stop_reason": None}}
    return [begin], blocks, [end, {"type": "message_stop"}], {"type": "error", "error": error}


def _chat(made: dict[str, Any], error: dict[str, str]) -> tuple[list[Any], list[Any], list[Any], Any]:
    message = made["choices"][0]["message"]
    deltas = [{"content": message["content"]}]
    deltas += [{"tool_calls": [{"index": i, **call}]} for i, call in enumerate(message.get("tool_calls", ()))]
    blocks = [{"id": made["id"], "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    end = {"id": made["id"], "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return [], blocks, [end, {"id": made["id"], "choices": [], "usage": made["usage"]}, None], {"error": error}


def _responses(made: dict[str, Any], error: dict[str, str]) -> tuple[list[Any], list[Any], list[Any], Any]:
    asked = {"text": {"format": {"type": "text"}}, "tools": [{"type": "function"}]}
    opened = {"id": made["id"], "status": "in_progress", "output": [], **asked}
    begin = [{"type": f"response.{name}", "response": opened} for name in ("created", "in_progress")]
    blocks = [
        {"type": "response.output_item.done", "output_index": place, "item": item}
        for place, item in enumerate(made["output"])
    ]
    failed = {"type": "response.failed", "response": {**opened, "status": "failed", "error": error}}
    return begin, blocks, [{"type": "response.completed", "response": made}], failed


class Pieces(httpx.AsyncByteStream):
    """A body that comes in pieces; ``fails`` with a broken connection, or ``hangs`` for ever behind them."""

    def __init__(self, provider: Provider, raw: bytes, end: str) -> None:
        self._provider, self._raw, self._end, self._open = provider, raw, end, True
        provider.open += 1

    async def __aiter__(self) -> AsyncIterator[bytes]:
        random, at = self._provider.random, 0
        while at < len(self._raw):
            size = random.choice((1, 30, 200, 1_000, 5_000))
            if random.random() < 0.4:
                await self._provider.pause()
            yield self._raw[at : at + size]
            at += size
        if self._end == "cut":
            raise httpx.ReadError("cut, says the script")
        if self._end == "hangs":
            await asyncio.Event().wait()

    async def aclose(self) -> None:
        self._provider.open -= self._open
        self._open = False


class Provider(httpx.AsyncBaseTransport):
    """Does what the script of each request says, its last step again and again. ``open``: answers not closed yet."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.scripts: dict[str, tuple[str, list[Step]]] = {}
        self.sent: list[Sent] = []
        self.open = 0

    async def pause(self) -> None:
        await asyncio.sleep(self.random.random() * 0.003)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        key, raw = request.headers[KEY], await request.aread()
        wire, steps = self.scripts[key]
        tries = sum(one.key == key for one in self.sent)
        step = steps[min(tries, len(steps) - 1)]
        sent = Sent(key, f"resp.{key}.{tries}", raw, step)
        self.sent.append(sent)
        await self.pause()
        if step.end == "unread":
            raise httpx.ReadError("reset, says the script")
        sent.status, kind = 200, "application/json"
        tokens = len(raw) // 4
        if step.end in ("refused", "too_long"):
            sent.status = step.status if step.end == "refused" else 400
            words = "not now" if step.end == "refused" else FULL
            error = {"type": FAILURES.get(sent.status, "invalid_request_error"), "message": words}
            sent.given = json.dumps({"type": "error", "error": error}).encode()
        elif step.end == "json":
            sent.given = json.dumps(whole(wire, sent.id, step, tokens)).encode()
        else:
            sent.given, kind = stream(wire, sent.id, step, tokens), "text/event-stream"
        if step.end in ("cut", "hangs"):
            sent.given = sent.given[: step.at % len(sent.given)]
        return httpx.Response(sent.status, headers={"content-type": kind}, stream=Pieces(self, sent.given, step.end))


class Ask:
    """A request of a client under way. It goes away behind ``leaves`` messages of the answer, or when ``go`` is called.

    ``status`` 0: no answer began; ``ended``: it came to its end.
    """

    def __init__(self, app: ASGIApp, wire: str, headers: dict[str, str], body: dict[str, Any], leaves: int = 0) -> None:
        self.key, self.wire, self.body = headers[KEY], wire, body
        self.status, self.got, self.ended = 0, b"", False
        self.left = False
        self._headers, self._leaves = headers, leaves
        self._over, self._told, self._count = asyncio.Event(), False, 0
        self.task = asyncio.ensure_future(self._run(app))

    def go(self) -> None:
        """Close the connection."""
        if not self.task.done():
            self.left = True
            self._over.set()

    async def _run(self, app: ASGIApp) -> None:
        path = PATHS[self.wire]
        await app(
            {
                "type": "http", "http_version": "1.1", "method": "POST", "scheme": "http", "path": path,
                "raw_path": path.encode(), "query_string": b"", "root_path": "", "client": ("127.0.0.1", 5),
                "headers": [(name.encode(), value.encode()) for name, value in self._headers.items()],
                "server": ("127.0.0.1", 80),
            },
            self._receive,
            self._send,
        )  # fmt: skip
        self._over.set()

    async def _receive(self) -> dict[str, Any]:
        if not self._told:
            self._told = True
            return {"type": "http.request", "body": json.dumps(self.body).encode(), "more_body": False}
        await self._over.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if self.left:
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.got += message["body"]
            self.ended = not message.get("more_body", False)
        self._count += 1
        if self._count == self._leaves:
            self.go()

"""Budget 3b: a proxied request that extends the last one, end to end, against a plain proxy of the same framework.

Four processes: a provider that answers at once, a plain proxy (Starlette, uvicorn, httpx), foldlog's, and this client,
which sends each request to both in turn. What foldlog adds is the difference of the two.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import multiprocessing
import statistics
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.floor import Floor

from foldlog.adapters.proxy.body import common
from foldlog.adapters.traces.generator import stream
from foldlog.projections.wire import CURRENT, wire
from foldlog.projections.wire.v1 import spans

TOKENS = (200_000, 1_000_000)
REQUESTS = 60
BYTES = 4
"""Bytes of a body per token of it, about."""
MODEL = "bench-model"
HUGE = 1_000_000_000
ANSWER = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"%d","model":"m","usage":{"input_tokens":0}'
    b'}}\n\nevent: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":'
    b'"text"}}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":'
    b'{"output_tokens":1}}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n'
)
HEADERS = {"content-type": "application/json", "x-claude-code-session-id": "bench", "user-agent": "claude-cli/2"}


async def _provider(pipe: Any) -> None:
    """Answer each request when its body is there."""
    number = itertools.count()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()
                return
            size = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(size)
            answer = ANSWER % next(number)
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(answer)
                + answer
            )
            await writer.drain()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, limit=1 << 23)
    pipe.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def _provide(pipe: Any) -> None:
    asyncio.run(_provider(pipe))


def _plain(pipe: Any, upstream: str) -> None:
    """The least a proxy of this framework does."""
    import httpx
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    client = httpx.AsyncClient(timeout=None)

    async def through(request: Request) -> StreamingResponse:
        body = await request.body()
        headers = [(n, v) for n, v in request.headers.raw if n not in (b"host", b"connection")]
        sent = httpx.Request(request.method, upstream + request.url.path, headers=headers, content=body)
        answer = await client.send(sent, stream=True)
        return StreamingResponse(answer.aiter_raw(), answer.status_code, {"content-type": "text/event-stream"})

    _serve(pipe, Starlette(routes=[Route("/{path:path}", through, methods=["POST"])]))


def _foldlog(pipe: Any, upstream: str, db: str) -> None:
    import foldlog
    from foldlog.adapters.config import Config
    from foldlog.adapters.models.windows import Limits
    from foldlog.adapters.proxy.app import make_app

    config = Config(
        upstreams={"anthropic": upstream}, models={MODEL: Limits(context=HUGE)}, policy={"cache_ttl": "never"}
    )
    _serve(pipe, make_app(config, lambda: foldlog.Engine.open(db, summarizer=None)))


def _serve(pipe: Any, app: Any) -> None:
    import socket

    import uvicorn

    # with the protocol named, asyncio turns Nagle off for the connections; without, answers wait 40 ms for an ACK
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    pipe.send(listening.getsockname()[1])
    config = uvicorn.Config(app, log_config=None, access_log=False, ws="none", timeout_keep_alive=600)
    asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))


def started(target: Any, *given: Any) -> tuple[Any, int]:
    """Start a process; return it and its port."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=target, args=(there, *given), daemon=True)
    process.start()
    return process, here.recv()


def ask(link: http.client.HTTPConnection, body: bytes) -> float:
    """Send a request and read its answer; return the seconds."""
    begin = perf_counter()
    link.request("POST", "/v1/messages", body, HEADERS)
    answer = link.getresponse()
    said = answer.read()
    took = perf_counter() - begin
    assert answer.status == 200, said
    return took


def bodies(tokens: int) -> Iterator[tuple[bytes, tuple[bytes, ...]]]:
    """Yield bodies that each go on where the last one ended, with what is new in them."""
    head = b'{"model":"%s","max_tokens":100,"stream":true,"messages":[' % MODEL.encode()
    text = bytearray()
    fresh: list[bytes] = []
    for step in stream(3):
        for raw in step.messages:
            text += b"," + raw if text else raw
            fresh.append(raw)
        if len(text) >= tokens * BYTES and json.loads(fresh[-1])["role"] == "user":
            yield head + bytes(text) + b"]}", tuple(fresh)
            fresh = []


def budget(floor: Floor, last: bytes, body: bytes, fresh: tuple[bytes, ...]) -> tuple[float, float, float]:
    """Return the seconds of compare, copy and scan; of a durable append of the new bytes; of the pass's whole floor."""
    begin = perf_counter()
    common(body, 0, last, 0)
    bytes(bytearray(body))
    at = len(body) - 2 - sum(map(len, fresh)) - len(fresh) + 1
    for raw in fresh:
        spans.value_end(body, at)
        at += len(raw) + 1
    base = perf_counter() - begin
    texts: list[str] = []
    for raw in fresh:
        wire(CURRENT).read("anthropic", raw, lambda text: texts.append(text) or 0)  # type: ignore[func-returns-value]
    append = floor.measure(list(fresh), [])
    return base, append, floor.measure(list(fresh), texts)


def measure(folder: Path, tokens: int) -> dict[str, float]:
    """Return medians in seconds: of both proxies, of what the budget is made of, and the median of the differences."""
    provider, port = started(_provide)
    upstream = f"http://127.0.0.1:{port}"
    plain, plain_port = started(_plain, upstream)
    ours, our_port = started(_foldlog, upstream, f"sqlite:///{folder / f'proxied-{tokens}.db'}")
    floor = Floor(folder / f"proxied-floor-{tokens}.db")
    links = [http.client.HTTPConnection("127.0.0.1", one, timeout=120) for one in (plain_port, our_port)]
    try:
        for link in links:
            _connected(link)
        found: dict[str, list[float]] = {name: [] for name in ("plain", "ours", "base", "append", "floor", "more")}
        last = b""
        for body, fresh in itertools.islice(bodies(tokens), REQUESTS + 3):
            times = [ask(link, body) for link in links]
            parts = budget(floor, last, body, fresh)
            if last:
                row = (*times, *parts, times[1] - times[0])
                for name, value in zip(found, row, strict=True):
                    found[name].append(value)
            last = body
        return {name: statistics.median(values[2:]) for name, values in found.items()} | {"bytes": len(last)}
    finally:
        for process in (ours, plain, provider):
            process.terminate()
            process.join(10)


def _connected(link: http.client.HTTPConnection) -> None:
    import time

    for _ in range(200):
        try:
            link.connect()
            return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError("the proxy did not start")

"""A provider on loopback that does what a test's script says, and a proxy that runs in a thread of the test."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import uvicorn

from foldlog.adapters.config import Config
from foldlog.adapters.proxy.app import make_app

MODEL = "claude-sonnet-4-5"
TOKEN = "token-of-the-run-file"
KEY = "sk-ant-planted-8d3fa7"
AGENT = "claude-cli/2.1.332 (external, cli)"


class Seen:
    """One request as the provider got it."""

    def __init__(self, method: str, path: str, headers: list[tuple[str, str]], body: bytes) -> None:
        self.method, self.path, self.body = method, path, body
        self.pairs = [(name.lower(), value) for name, value in headers]
        self.headers = dict(self.pairs)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Reply = Callable[[Any, Seen], None]
"""Writes an answer: gets the handler and the request."""


class Provider:
    """Answers each request by the next reply of its script, else by ``usual``."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.script: list[Reply] = []
        self.usual: Reply = said()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def answer(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(size)
                if self.headers.get("transfer-encoding") == "chunked":
                    while size := int(self.rfile.readline(), 16):
                        body += self.rfile.read(size)
                        self.rfile.readline()
                    self.rfile.readline()
                seen = Seen(self.command, self.path, self.headers.items(), body)
                outer.seen.append(seen)
                reply = outer.script.pop(0) if outer.script else outer.usual
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    reply(self, seen)

        for method in ("GET", "POST", "PUT", "HEAD", "DELETE"):
            setattr(Handler, f"do_{method}", Handler.answer)

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def events(
    *, text: str = "ok", calls: tuple[tuple[str, str, Any], ...] = (), id: str = "", **usage: int
) -> list[bytes]:
    """The events of a streamed answer of the Messages API."""
    counts = {"input_tokens": 10, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, **usage}
    name = id or f"msg_{time.monotonic_ns()}"
    message = {"id": name, "type": "message", "role": "assistant", "model": MODEL, "content": [], "stop_reason": None}
    found: list[tuple[str, Any]] = [
        ("message_start", {"message": {**message, "usage": {**counts, "output_tokens": 1}}})
    ]
    blocks: list[Any] = [
        {"type": "text", "text": ""},
        *({"type": "tool_use", "id": i, "name": n, "input": {}} for i, n, _ in calls),
    ]
    pieces: list[Any] = [
        {"type": "text_delta", "text": text},
        *({"type": "input_json_delta", "partial_json": json.dumps(a)} for *_, a in calls),
    ]
    for index, (block, piece) in enumerate(zip(blocks, pieces, strict=True)):
        found.append(("content_block_start", {"index": index, "content_block": block}))
        found.append(("content_block_delta", {"index": index, "delta": piece}))
        found.append(("content_block_stop", {"index": index}))
    stop = "tool_use" if calls else "end_turn"
    found.append(("message_delta", {"delta": {"stop_reason": stop}, "usage": {"output_tokens": 5}}))
    found.append(("message_stop", {}))
    return [f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode() for kind, data in found]


def chunk(handler: Any, piece: bytes) -> None:
    handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
    handler.wfile.flush()


def streamed(
    pieces: list[bytes],
    *,
    cut: int | None = None,
    wait: threading.Event | None = None,
    end: threading.Event | None = None,
) -> Reply:
    """A stream; ``cut``: it breaks before that piece; ``wait``: held before the second, ``end``: behind the last."""

    def reply(handler: Any, seen: Seen) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream; charset=utf-8")
        handler.send_header("transfer-encoding", "chunked")
        handler.send_header("request-id", "req_1")
        handler.end_headers()
        for index, piece in enumerate(pieces):
            if index == cut:
                handler.wfile.flush()
                handler.connection.shutdown(socket.SHUT_RDWR)
                return
            if index == 1 and wait is not None:
                wait.wait(10)
            chunk(handler, piece)
        if end is not None:
            end.wait(10)
        handler.wfile.write(b"0\r\n\r\n")

    return reply


def said(**given: Any) -> Reply:
    """A whole streamed answer."""

    def reply(handler: Any, seen: Seen) -> None:
        streamed(events(**given))(handler, seen)  # each with an id of its own

    return reply


def failed(status: int, body: Any, **headers: str) -> Reply:
    """A failure, or any answer with one body."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()

    def reply(handler: Any, seen: Seen) -> None:
        handler.send_response(status)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(raw)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        if seen.method != "HEAD":
            handler.wfile.write(raw)

    return reply


def hung_up(handler: Any, seen: Seen) -> None:
    """No answer: the connection is closed."""
    handler.connection.shutdown(socket.SHUT_RDWR)


def error(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


class Proxy:
    """A proxy under test and a client of it."""

    def __init__(self, url: str, app: Any, server: uvicorn.Server) -> None:
        self.url, self.app, self.server = url, app, server
        self.door = app.state.door
        self.client = httpx.Client(base_url=url, timeout=20, trust_env=False)

    def ask(self, messages: list[Any], session: str = "s1", **given: Any) -> httpx.Response:
        """Send a request of Claude Code's kind."""
        headers = {
            "x-claude-code-session-id": session,
            "x-api-key": KEY,
            "user-agent": AGENT,
            **given.pop("headers", {}),
        }
        return self.client.post("/v1/messages?beta=true", json=body(messages, **given), headers=headers)

    def page(self, path: str, **given: Any) -> httpx.Response:
        """Ask one of the proxy's own pages."""
        method = "POST" if "json" in given else "GET"
        return self.client.request(method, path, headers={"authorization": f"Bearer {TOKEN}"}, **given)

    def settle(self) -> None:
        """Wait until all that was to be reported is."""
        until = time.monotonic() + 10
        while self.door.tasks and time.monotonic() < until:
            time.sleep(0.005)
        assert not self.door.tasks

    def moments(self) -> list[dict[str, Any]]:
        """What the feed told so far."""
        self.settle()
        return [json.loads(line) for line in self.door.feed._kept]

    def events(self, session: str = "claude-code/s1") -> list[Any]:
        """The events of a session, from its log."""
        self.settle()
        engine = self.door.gate._engine
        return [stored.event for stored in engine.log.read(engine.find(session))]


def body(messages: list[Any], *, stream: bool = True, model: str = MODEL, **more: Any) -> dict[str, Any]:
    return {"model": model, "max_tokens": 1000, "stream": stream, "system": "You work.", "messages": messages, **more}


def wait_for(check: Callable[[], Any]) -> None:
    """Wait until ``check`` is true, ten seconds at most."""
    until = time.monotonic() + 10
    while not check():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.005)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def goes_away(proxy: Proxy, messages: list[Any], after: bytes = b"", when: Any = None) -> None:
    """Send a request and close the connection when ``after`` came and ``when`` is true."""
    host, port = proxy.url.removeprefix("http://").split(":")
    raw = json.dumps(body(messages)).encode()
    head = (
        f"POST /v1/messages HTTP/1.1\r\nhost: {host}:{port}\r\nx-claude-code-session-id: s1\r\nuser-agent: {AGENT}\r\n"
        f"x-api-key: {KEY}\r\ncontent-length: {len(raw)}\r\n\r\n"
    )
    with socket.create_connection((host, int(port))) as link:
        link.sendall(head.encode() + raw)
        got = b""
        while after and after not in got:
            got += link.recv(65_536)
        if when is not None:
            wait_for(when)


@contextlib.contextmanager
def serving(config: Config, engine: Any, http: Any = "auto", **given: Any) -> Iterator[Proxy]:
    """Run a proxy in a thread until the block ends."""
    app = make_app(config, engine, token=TOKEN, **given)
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(256)
    server = uvicorn.Server(
        uvicorn.Config(app, http=http, log_config=None, access_log=False, server_header=False, date_header=False,
                       ws="none", timeout_graceful_shutdown=5)
    )  # fmt: skip
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True)
    thread.start()
    until = time.monotonic() + 10
    while not server.started and time.monotonic() < until:
        time.sleep(0.002)
    proxy = Proxy(f"http://127.0.0.1:{listening.getsockname()[1]}", app, server)
    try:
        yield proxy
    finally:
        proxy.client.close()
        server.should_exit = True
        thread.join(15)
        listening.close()
        assert not thread.is_alive()

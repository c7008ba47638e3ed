"""The proxy as an application: what goes where (``specs/proxy.md``, Serving)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import structlog
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope
from starlette.types import Send as AppSend

from ...api import Engine, Session, wall_clock
from ...domain.errors import FoldlogError, place
from ...domain.policy import Policy, make_policy
from ..config import Config, policy
from ..models.windows import limits
from . import answer, exchange, guard, observe, pages, passing, preparing, refuse, upstream
from .answer import Send
from .body import take
from .door import THREADS, Came, Door
from .feed import Feed, Moment
from .gate import Blocked, Gate
from .pending import Pending
from .protocols import Protocol, protocol_for
from .sessions import MEGABYTE, Opening, Sessions

log = structlog.get_logger("foldlog.proxy")

BODY_LIMIT = 256 * 1024 * 1024
"""Bytes of a managed request's body; no provider takes as much."""
DEFECT = "DEFECT"


def make_app(
    config: Config,
    engine: Engine | Callable[[], Engine],
    client: httpx.AsyncClient | None = None,
    *,
    token: str = "",
    observing: bool = False,
) -> Starlette:
    """Return the proxy over ``engine``, or over what opens one when it is first needed.

    ``client``: connections to the providers (None: our own pool); ``token``: of everything under ``/foldlog/``, nothing
    is served there without; ``observing``: the client's bytes go out untouched, and what foldlog would have sent is
    worked out beside them. The application closes what it was given when it ends.
    """
    opening = (lambda: engine) if isinstance(engine, Engine) else engine
    door = Door(
        config=config,
        client=upstream.client() if client is None else client,
        gate=Gate(opening, lambda opened: _sessions(config, opened)),
        feed=Feed(),
        pending=Pending(),
        pool=ThreadPoolExecutor(THREADS, "foldlog-pass"),
        observing=observing,
    )

    @contextlib.asynccontextmanager
    async def life(starting: Starlette) -> AsyncIterator[None]:
        starting.state.loop = asyncio.get_running_loop()
        try:
            yield
        finally:
            await close(door)

    async def everything(scope: Scope, receive: Receive, send: AppSend) -> None:
        await _serve(door, scope, receive, send)

    app = Starlette(
        routes=[*pages.routes(door, token), Mount("/", app=everything)],
        middleware=[Middleware(guarded)],
        lifespan=life,
    )
    app.state.door = door
    return app


def _sessions(config: Config, engine: Engine) -> Sessions:
    def opened(wanted: Opening) -> Session:
        limit = limits(wanted.model, config.models, wanted.betas)
        return engine.session(
            wanted.id,
            harness=wanted.harness,
            codec=wanted.codec,
            model=wanted.model or None,
            context_limit=limit.context or None,
            output_limit=limit.output or None,
            mode=wanted.mode,
            policy=_policy(config, wanted.lifetime),
        )

    return Sessions(engine, opened, config.hot_sessions_mb * MEGABYTE)


def _policy(config: Config, lifetime: str) -> Policy | None:
    """Return a session's policy: the configured one, the cache's lifetime as the client asks where none is set."""
    if not lifetime or "cache_ttl" in config.policy:
        return policy(config)
    return make_policy({**config.policy, "cache_ttl": lifetime})


async def close(door: Door) -> None:
    """End: finish what is being written down, then release connections and store."""
    door.feed.close()
    while door.tasks:
        await asyncio.wait(set(door.tasks))
    await door.client.aclose()
    await asyncio.to_thread(door.pool.shutdown)
    await asyncio.to_thread(door.gate.close)


def guarded(app: ASGIApp) -> ASGIApp:
    """Let in only whom ``guard`` does not object to."""

    async def checked(scope: Scope, receive: Receive, send: AppSend) -> None:
        if scope["type"] == "http":
            client, server = scope.get("client"), scope.get("server")
            why = guard.objection(client[0] if client else None, Headers(scope=scope), server[1] if server else None)
            if why:
                await answer.say(send, refuse.plain("FORBIDDEN", f"foldlog: {why}", 403))
                return
        await app(scope, receive, send)

    return checked


async def _serve(door: Door, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] != "http":
        return
    headers = list(scope["headers"])
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    if not path.startswith("/"):  # behind an address of ours it could name another host
        await answer.say(send, refuse.plain("BAD_PATH", "a request's path begins with a slash", 400))
        return
    came = Came(scope["method"], path, scope["query_string"], headers, dict(headers))
    if came.head.get(b"upgrade", b"").lower() == b"websocket":
        # Codex asks for one first, and at this answer goes on by HTTP at once; any other it tries again for seconds
        await answer.say(send, refuse.plain("NO_WEBSOCKET", "the proxy speaks HTTP only", 426))
        return
    plain = upstream.canonical(came.path)
    protocol = protocol_for(came.method, plain)
    if protocol is None:
        await passing.stream(door, came, receive, send)
        return
    came.path = plain
    raw = await _body(receive)
    if raw is not None:
        came.raw = raw
        await passing.unless(passing.away(receive), _answered(door, came, protocol, send))


async def _body(receive: Receive) -> bytes | None:
    """Return the whole body, None where the client went away before it was sent. A longer one is cut at the limit."""
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        piece = message.get("body", b"")
        if size <= BODY_LIMIT:
            pieces.append(piece)
        size += len(piece)
        if not message.get("more_body", False):
            return b"".join(pieces)


async def _answered(door: Door, came: Came, protocol: Protocol, send: Send) -> None:
    """Serve a request on a path of a known protocol; whatever goes wrong is told in that provider's words."""
    begun = False

    async def watched(message: Any) -> None:
        nonlocal begun
        begun = True
        await send(message)

    try:
        if door.observing:
            await observe.observed(door, came, protocol, watched)
        else:
            came.body = upstream.plain_body(came.raw, came.head, BODY_LIMIT)
            await _by_caller(door, came, protocol, watched)
    except FoldlogError as error:
        if not begun:
            door.feed.tell(Moment(at=wall_clock(), level="refused", outcome="refused", note=error.code))
            await answer.say(send, protocol.refusal(error.code, refuse.sentence(error), refuse.status(error)))
    except Exception as error:  # noqa: BLE001 - a defect of ours is told to the client, never a request sent by accident
        log.error("a defect of foldlog", error=type(error).__name__, at=place(error))
        if not begun:
            said = f"a defect of foldlog ({type(error).__name__}). Nothing was sent; please report it with its log."
            await answer.say(send, protocol.refusal(DEFECT, said, 500))


async def _by_caller(door: Door, came: Came, protocol: Protocol, send: Send) -> None:
    """Manage what belongs to a session; helper calls go through, with the store or without it."""
    try:
        sessions, admitted = await preparing.admit(door, came, protocol)
    except Blocked:
        caller = await door.run(lambda: protocol.who(came.names, take(came.body, protocol.member)))
        if caller.managed and door.config.fail_closed_blocking:
            raise
        await passing.raw(door, came, protocol, send, caller.kind, note="the store cannot be used")
        return
    if admitted.managed is None:
        await passing.raw(door, came, protocol, send, admitted.caller.kind, note=admitted.caller.why)
        return
    try:
        await exchange.managed(door, came, admitted, sessions, send)
    except Blocked:
        if door.config.fail_closed_blocking:
            raise
        await passing.raw(door, came, protocol, send, admitted.caller.kind, note="the store cannot be used")
    finally:
        preparing.done(door, sessions, admitted)

"""The proxy's own pages under ``/foldlog/``: health, live feed, the agent's tools. Only for who has its token."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from ... import __version__
from ...domain.errors import FoldlogError, InputError
from ..mcp.tools import perform
from . import guard, refuse
from .door import Door
from .pending import TOOLS

LARGEST = 1 << 20

Page = Callable[[Request], Awaitable[Response]]


def routes(door: Door, token: str) -> list[BaseRoute]:
    """Return the pages; each asks for the bearer token of the run file."""

    def shut(page: Page) -> Page:
        async def checked(request: Request) -> Response:
            if not guard.bearer(request.headers, token):
                return _said("FORBIDDEN", "this page needs the token of the proxy's run file", 401)
            return await page(request)

        return checked

    async def health(_: Request) -> Response:
        return _json(
            {
                "version": __version__,
                "pid": os.getpid(),
                "observing": door.observing,
                "store": "" if door.gate.fault is None else refuse.sentence(door.gate.fault),
                "sessions": len(door.tracks),
                "open": len(door.tasks),
            }
        )

    async def events(_: Request) -> Response:
        return StreamingResponse(
            door.feed.watch(), media_type="text/event-stream", headers={"cache-control": "no-store"}
        )

    async def tools(request: Request) -> Response:
        return await _tool(door, request)

    async def nothing(_: Request) -> Response:
        return _said("NOT_FOUND", "the proxy has no such page", 404)

    return [
        Route("/foldlog/health", shut(health), methods=["GET"]),
        Route("/foldlog/events", shut(events), methods=["GET"]),
        Route("/foldlog/tools/{name}", shut(tools), methods=["POST"]),
        Route("/foldlog/{rest:path}", shut(nothing), methods=["GET", "POST", "PUT", "DELETE", "PATCH"]),
    ]


async def _tool(door: Door, request: Request) -> Response:
    name = request.path_params["name"]
    if name not in TOOLS:
        return _said("UNKNOWN_TOOL", f"there is no tool {name!r} yet; there are {', '.join(TOOLS)}", 404)
    try:
        body = await request.body()
        given = msgspec.json.decode(body) if len(body) <= LARGEST else None
        if not isinstance(given, dict) or not isinstance(given.get("arguments", {}), dict):
            raise InputError("a call is an object with an object of arguments", where="body")
        key, command = await door.pending.find(name, given)
        sessions = await door.sessions()
        text = await door.run(lambda: perform(name, sessions.reach(key), given.get("arguments", {}), command))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _said("INVALID_INPUT", "the body is no JSON", 400)
    except FoldlogError as error:
        return _said(error.code, str(error), 503 if error.recoverable else 400)
    return _json({"text": text, "session": key})


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


def _said(code: str, message: str, status: int) -> Response:
    _, headers, body = refuse.plain(code, message, status)
    return Response(body, status, headers)

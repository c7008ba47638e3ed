"""The MCP server: lists the table of tools and hands each call on. Every failure is a text the model can act on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from starlette.types import ASGIApp, Receive, Scope, Send

from ... import __version__
from ...domain.errors import FoldlogError
from .. import local
from ..config import Config
from .reaching import answer, asked
from .tools import TABLE

NAME = "foldlog"
ALWAYS = {"anthropic/alwaysLoad": True}
"""Asks Claude Code to keep a tool in every request instead of behind its tool search."""

HARMLESS = types.ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
"""They touch nothing of the person's. Without these hints Codex asks for approval, and refuses where nobody is."""


def make_server(config: Config, environ: Mapping[str, str] | None = None) -> Server[Any]:
    """Return the server. ``environ``: where ``FOLDLOG_PROXY`` is read, the process' own if left out."""
    env = os.environ if environ is None else environ

    async def list_tools(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        tools = [
            types.Tool(name=t.name, description=t.description, input_schema=dict(t.schema), annotations=HARMLESS)
            for t in TABLE
        ]
        return types.ListToolsResult(tools=[t.model_copy(update={"meta": ALWAYS}) for t in tools])

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        meta: Any = context.meta
        call = asked(params.name, params.arguments, meta if isinstance(meta, Mapping) else None)
        try:
            return _result(await asyncio.to_thread(answer, call, config, env))
        except FoldlogError as error:
            return _result(str(error), failed=True)

    return Server(NAME, version=__version__, on_list_tools=list_tools, on_call_tool=call_tool)


def _result(text: str, *, failed: bool = False) -> types.CallToolResult:
    text = text.encode("utf-8", "replace").decode()  # half a surrogate pair of a host cannot be sent
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=failed)


def run_stdio(config: Config) -> None:
    """Serve one client over the standard streams until it closes them."""
    asyncio.run(_stdio(config))


async def _stdio(config: Config) -> None:
    server = make_server(config)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def http_app(config: Config, token: str, environ: Mapping[str, str] | None = None) -> ASGIApp:
    """Return the server as an ASGI application at ``/mcp``, for callers on this machine that show ``token``."""
    inner = make_server(config, environ).streamable_http_app(stateless_http=True, json_response=True)

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
            scheme, _, shown = given.partition(" ")
            if scheme.lower() != "bearer" or not local.same_token(shown.strip(), token):
                await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
                await send({"type": "http.response.body", "body": b""})
                return
        await inner(scope, receive, send)

    return guarded

"""``mcp``: the agent's tools for hosts that take them over MCP."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from ...domain.errors import FoldlogError, OptionError
from .. import config as configuration
from .. import local
from . import options
from .terminal import emit, say

TOKEN_ENV = "FOLDLOG_MCP_TOKEN"  # noqa: S105 - the name of the variable


def mcp(
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP on this machine instead.")] = False,
    port: Annotated[int, typer.Option("--port", min=1, max=65_535, help="The port of --http.")] = 4142,
    db: options.Db = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the tools as JSON and end.")] = False,
) -> None:
    """Serve ctx_reduce and ctx_expand over MCP (standard streams), for Claude Code, Codex and other hosts.

    A call is carried out in the session it was made in, through the running proxy; without one, in the store, in the
    session the call names.
    """
    if as_json:
        from ..mcp.tools import TABLE

        emit([{"name": one.name, "description": one.description, "inputSchema": dict(one.schema)} for one in TABLE])
        return
    config = configuration.load()
    if db is not None:
        config = config.model_copy(update={"db": db})
    server = _server()
    if not http:
        server.run_stdio(config)
        return
    import uvicorn

    token = os.environ.get(TOKEN_ENV, "") or local.new_token()
    if len(token) < 16:
        raise OptionError("a token needs at least 16 characters", where=TOKEN_ENV)
    say(f"http://127.0.0.1:{port}/mcp, with the header  Authorization: Bearer {token}")
    uvicorn.run(server.http_app(config, token), host="127.0.0.1", port=port, log_level="warning")


def _server() -> Any:
    try:
        from ..mcp import server
    except ImportError as error:
        raise FoldlogError(
            f"serving tools needs more packages ({error.name}): pip install 'foldlog[mcp]'", code="MISSING"
        ) from None
    return server

"""The server as a real process, spoken to by the SDK's own client (specs/mcp.md)."""

from __future__ import annotations

import asyncio
import json

import pytest

import foldlog
from foldlog.adapters.cli.wrapping import mcp_command
from support.program import environment, value

pytest.importorskip("mcp")
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client


def talk(env, talking, folder):
    """Start the server as hosts are told to, in a project with a folder of a bad name; ``talking`` speaks to it."""
    (folder / "mcp").mkdir()
    (folder / "mcp" / "__init__.py").write_text("raise SystemExit('the project was loaded')")
    command, *args = mcp_command()
    how = StdioServerParameters(command=command, args=args, env={**environment(), **env}, cwd=folder)

    async def run():
        async with Client(stdio_client(how), read_timeout_seconds=30) as client:
            return await talking(client)

    return asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.slow
@pytest.mark.rule("MCP-1", "MCP-3", "MCP-5", "MCP-7", "MCP-10")
def test_a_whole_conversation(tmp_path, proxy):
    url = f"sqlite:///{tmp_path / 'x.db'}"
    with foldlog.Engine.open(url, summarizer=None) as engine:
        engine.session("one").prepare([{"role": "user", "content": "hello"}])

    async def talking(client):
        listed = (await client.list_tools()).tools
        through = await client.call_tool("ctx_reduce", {"drop": "1"}, meta={"claudecode/toolUseId": "toolu_7"})
        proxy.close()
        unnamed = await client.call_tool("ctx_expand", {"tag": "1"})
        named = await client.call_tool("ctx_expand", {"tag": "1", "session": "api/one"})
        wrong = await client.call_tool("ctx_expand", {"tag": "77", "session": "api/one"})
        nothing = await client.call_tool("ctx_nothing", {"session": "api/one"})
        return listed, through, unnamed, named, wrong, nothing

    env = {"FOLDLOG_DB": url, "FOLDLOG_PROXY": str(proxy.run.port)}
    listed, through, unnamed, named, wrong, nothing = talk(env, talking, tmp_path)
    assert [one.name for one in listed] == ["ctx_reduce", "ctx_expand"]
    assert all(one.meta["anthropic/alwaysLoad"] is True for one in listed)
    assert all(one.annotations.read_only_hint and not one.annotations.open_world_hint for one in listed)
    assert (through.is_error, through.content[0].text) == (False, "Queued: drop 1.")
    assert proxy.asked[0][2]["tool_use_id"] == "toolu_7"
    assert (unnamed.is_error, named.is_error, wrong.is_error, nothing.is_error) == (True, False, True, True)
    assert "api/one" in unnamed.content[0].text
    assert named.content[0].text == "§1§ hello"
    assert "77" in wrong.content[0].text
    assert "ctx_reduce" in nothing.content[0].text


def test_the_command_lists_its_tools():
    assert [tool["name"] for tool in value("mcp")] == ["ctx_reduce", "ctx_expand"]


@pytest.mark.rule("MCP-8")
def test_over_http_only_the_holder_of_the_token_on_this_machine_is_served(tmp_path):
    from starlette.testclient import TestClient

    from foldlog.adapters.config import Config
    from foldlog.adapters.mcp.server import http_app

    app = http_app(Config(db=f"sqlite:///{tmp_path / 'x.db'}"), "t" * 20, {})
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    given = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
    with TestClient(app, base_url="http://127.0.0.1:4142") as client:
        assert client.post("/mcp", json=body, headers=given).status_code == 401
        assert client.post("/mcp", json=body, headers={**given, "authorization": "Bearer x"}).status_code == 401
        holder = {**given, "authorization": "Bearer " + "t" * 20}
        for foreign in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
            assert client.post("/mcp", json=body, headers={**holder, **foreign}).status_code in {403, 421}
        got = client.post("/mcp", json=body, headers=holder)
        assert [one["name"] for one in json.loads(got.content)["result"]["tools"]] == ["ctx_reduce", "ctx_expand"]

"""A client that asks for a WebSocket is told at once that there is none (specs/proxy.md)."""

from __future__ import annotations

import httpx
import pytest
from starlette.testclient import TestClient

import foldlog
from foldlog.adapters.config import Config
from foldlog.adapters.proxy.app import make_app


@pytest.mark.rule("PROXY-49")
def test_an_upgrade_is_answered_here_and_not_passed_on():
    def never(request: httpx.Request) -> httpx.Response:
        raise AssertionError(request.url)

    client = httpx.AsyncClient(transport=httpx.MockTransport(never))
    app = make_app(Config(db="memory:"), lambda: foldlog.Engine.open("memory:"), client)
    with TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 5)) as browser:
        got = browser.get("/v1/responses", headers={"connection": "Upgrade", "upgrade": "websocket"})
    assert got.status_code == 426
    assert got.json()["error"]["code"] == "NO_WEBSOCKET"

"""Only local programs of the same user, no web page, and a key that is found nowhere."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.datastructures import Headers

import foldlog
from foldlog.adapters.config import Config
from foldlog.adapters.proxy import guard, upstream
from foldlog.adapters.proxy.server import OneUser
from support.proxy import (
    KEY,
    TOKEN,
    Provider,
    Proxy,
    assistant,
    error,
    events,
    failed,
    hung_up,
    serving,
    streamed,
    user,
)


def objection(client: str | None = "127.0.0.1", **headers: str) -> str:
    given = {"host": "127.0.0.1:4141", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return guard.objection(client, Headers(given), 4141)


@pytest.mark.parametrize("host", ["127.0.0.1:4141", "localhost:4141", "[::1]:4141", "LOCALHOST:4141", "127.9.9.9:4141"])
def test_a_local_name_is_let_in(host: str) -> None:
    """PROXY-80."""
    assert objection(host=host) == ""
    assert objection(host=host, origin=f"http://{host.lower()}") == ""


@pytest.mark.parametrize(
    "host",
    ["evil.example:4141", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:4141.evil.example", "127.0.0.1.evil.example:4141",
     "", ":4141", "[::1", "[::1]x:4141", "0.0.0.0:4141", "localhost:4141:4141", "192.168.1.1:4141", "127.0.0.1:²"],
)  # fmt: skip
def test_another_name_is_not(host: str) -> None:
    """PROXY-80: a page whose name was made to point here sends its own name."""
    assert objection(host=host)


def test_no_web_page_is_let_in() -> None:
    """PROXY-80."""
    for origin in ("https://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:4141"):
        assert objection(origin=origin), origin
    assert objection(sec_fetch_site="cross-site")
    assert objection(sec_fetch_site="same-site")
    assert objection(sec_fetch_site="none") == ""
    doubled = Headers(raw=[(b"host", b"127.0.0.1:4141"), (b"host", b"evil.example")])
    assert guard.objection("127.0.0.1", doubled, 4141)


def test_no_other_machine_is_let_in() -> None:
    """PROXY-80."""
    assert objection(client="192.168.1.7")
    assert objection(client="::ffff:10.0.0.1")
    assert objection(client="::ffff:127.0.0.1") == ""
    assert objection(client="fe80::1%eth0")


def test_the_proxy_asks_the_guard(provider: Provider, proxy: Proxy) -> None:
    """PROXY-80."""
    answer = proxy.client.post("/v1/messages", json={}, headers={"host": "evil.example"})
    assert answer.status_code == 403
    assert proxy.client.get("/v1/models", headers={"origin": "https://evil.example"}).status_code == 403
    assert not provider.seen


def test_the_proxys_own_pages_need_its_token(proxy: Proxy) -> None:
    """PROXY-81."""
    for path in ("/foldlog/health", "/foldlog/events", "/foldlog/nothing"):
        assert proxy.client.get(path).status_code == 401
        assert proxy.client.get(path, headers={"authorization": "Bearer wrong"}).status_code == 401
    assert proxy.client.post("/foldlog/tools/ctx_reduce", json={}).status_code == 401
    assert proxy.page("/foldlog/health").json()["pid"] == os.getpid()
    assert not guard.bearer(Headers({"authorization": "Bearer "}), "")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells whose a connection is")
def test_whose_a_connection_is(tmp_path: Path) -> None:
    """PROXY-82."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as mine:
        own, peer = server.getsockname(), mine.getsockname()
        assert guard.same_user(peer, own) is True
        assert guard.same_user((peer[0], 1), own) is False
        lines = Path("/proc/net/tcp").read_text().splitlines()
        table = tmp_path / "tcp"
        foreign = [lines[0]]
        for line in lines[1:]:
            fields = line.split()
            fields[7] = str(os.getuid() + 4_711)
            foreign.append(" ".join(fields))
        table.write_text("\n".join(foreign))
        assert guard.same_user(peer, own, [str(table)]) is False
    assert guard.same_user(peer, own, [str(tmp_path / "none")]) is None


def test_another_users_connection_is_closed_unheard(
    provider: Provider, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROXY-82."""
    asked: list[Any] = []

    def foreign(peer: Any, own: Any) -> bool:
        asked.append((peer, own))
        return len(asked) > 1

    monkeypatch.setattr(guard, "same_user", foreign)
    with serving(config, lambda: foldlog.Engine.open("memory:", summarizer=None), http=OneUser) as proxy:
        with pytest.raises(httpx.TransportError):
            proxy.ask([user("hello")])
        assert not provider.seen
        assert proxy.ask([user("hello")]).status_code == 200
    assert [peer[0] for peer, _ in asked] == ["127.0.0.1"] * 2


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells whose a connection is")
def test_a_mapped_address_is_the_same_connection() -> None:
    """PROXY-82."""
    with socket.socket(socket.AF_INET6) as server:
        try:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            server.bind(("::ffff:127.0.0.1", 0))
        except OSError:
            pytest.skip("no IPv6 here")
        server.listen()
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as mine:
            assert guard.same_user(mine.getsockname(), ("127.0.0.1", port)) is True


def test_a_planted_key_is_found_nowhere(
    provider: Provider, config: Config, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """PROXY-83: whatever goes wrong, and even where the provider repeats it."""
    store = tmp_path / "f.db"
    headers = {"x-api-key": KEY, "authorization": f"Bearer {KEY}-2", "cookie": f"a={KEY}-3", "x-custom-token": KEY}
    replies: list[Any] = [
        streamed(events()),
        failed(401, error("authentication_error", f"invalid x-api-key: {KEY}")),
        failed(400, error("invalid_request_error", f"prompt is too long for Bearer {KEY}-2: 9 tokens > 8 maximum")),
        failed(500, f"<html>{KEY}</html>".encode()),
        streamed([*events()[:2], f"data: {json.dumps(error('api_error', KEY))}\n\n".encode()]),
        streamed(events(), cut=2),
        hung_up,
    ]
    texts = []
    with serving(config, lambda: foldlog.Engine.open(f"sqlite:///{store}", summarizer=None)) as proxy:
        messages: list[Any] = [user("hello")]
        for reply in replies:
            provider.script = [reply]
            try:
                answer = proxy.ask(messages, headers=headers)
                if answer.status_code == 502:
                    texts.append(answer.text)
            except Exception as problem:  # noqa: BLE001 - the stream that is cut
                texts.append(str(problem))
            messages = [*messages, assistant("ok"), user("more")]
        proxy.client.post("/v1/messages", content=b"{", headers=headers)
        provider.close()
        texts.append(proxy.ask(messages, headers=headers).text)
        texts += [json.dumps(moment) for moment in proxy.moments()]
        texts.append(proxy.page("/foldlog/health").text)
        texts += [str(event) for event in proxy.events()]
    assert all(KEY in json.dumps(seen.pairs) for seen in provider.seen)
    for path in tmp_path.rglob("*"):
        assert KEY.encode() not in path.read_bytes(), path
    with foldlog.Engine.open(f"sqlite:///{store}", summarizer=None) as engine:
        for name, _ in engine.sessions():
            for stored in engine.log.read(f"session/{name}"):
                detail = getattr(stored.event, "detail", b"")
                if detail:
                    texts.append(engine.log.chunks([detail])[0].decode())
    out = capfd.readouterr()
    for text in (*texts, out.out, out.err):
        assert KEY not in text
        assert TOKEN not in text
    assert any("authentication_error" in text for text in texts)  # the words are kept, the key is not


def test_keys_are_taken_out_of_words() -> None:
    """PROXY-83."""
    keys = upstream.secrets(
        [(b"Authorization", b"Bearer abc123def"), (b"X-Api-Key", b"k-998877"), (b"accept", b"json/all")]
    )
    assert upstream.redacted("a abc123def, Bearer abc123def, k-998877 json/all", keys) == "a …, …, … json/all"

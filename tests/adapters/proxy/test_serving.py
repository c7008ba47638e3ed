"""What goes through and where to; sessions beside each other."""

from __future__ import annotations

import json
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import zstandard

from foldlog.adapters.proxy import upstream
from foldlog.domain import events as ev
from foldlog.domain.errors import MessageError, TooLarge
from foldlog.domain.passes import tagger
from support.proxy import AGENT, Provider, Proxy, assistant, body, events, failed, streamed, user, wait_for

ONE = [user("hello")]


def test_another_path_goes_through_untouched(provider: Provider, proxy: Proxy) -> None:
    """PROXY-40."""
    provider.usual = failed(418, b"\x00\xffraw", x_thing="1", connection="x-hop", x_hop="gone")
    raw = bytes(range(256)) * 10
    answer = proxy.client.request(
        "PUT",
        "/v1/files/a%2Fb?x=%20y&x=2",
        content=raw,
        headers={"x-api-key": "k", "te": "gzip", "x-own": "é".encode()},
    )
    assert (answer.status_code, answer.content, answer.headers["x-thing"]) == (418, b"\x00\xffraw", "1")
    assert "x-hop" not in answer.headers
    (seen,) = provider.seen
    assert (seen.method, seen.path, seen.body) == ("PUT", "/v1/files/a%2Fb?x=%20y&x=2", raw)
    assert seen.headers["x-own"] == "é".encode().decode("latin-1")
    assert "te" not in seen.headers
    assert seen.headers["host"] == provider.url.removeprefix("http://")
    assert not {"x-forwarded-for", "via", "forwarded"} & set(seen.headers)


def test_methods_without_a_body_and_bodies_without_a_length(provider: Provider, proxy: Proxy) -> None:
    """PROXY-40."""
    provider.usual = failed(200, {})
    assert proxy.client.head("/").status_code == 200
    assert proxy.client.get("/v1/models", headers={"accept-encoding": "zstd"}).status_code == 200
    assert proxy.client.post("/v1/embeddings", content=iter([b"a" * 10, b"b" * 10])).status_code == 200
    assert [(seen.method, seen.body) for seen in provider.seen] == [
        ("HEAD", b""),
        ("GET", b""),
        ("POST", b"a" * 10 + b"b" * 10),
    ]
    assert "transfer-encoding" not in provider.seen[1].headers
    assert provider.seen[1].headers["accept-encoding"] == "zstd"


def test_an_answer_is_passed_on_as_it_comes(provider: Provider, proxy: Proxy) -> None:
    """PROXY-40, PROXY-50: nothing waits for its end."""
    gate = threading.Event()
    for path in ("/v1/other", "/v1/messages"):
        gate.clear()
        provider.script = [streamed(events(), wait=gate)]
        headers = {"x-claude-code-session-id": "s", "user-agent": AGENT}
        with proxy.client.stream("POST", path, json=body(ONE), headers=headers) as answer:
            pieces = answer.iter_raw()
            assert b"message_start" in next(pieces)
            gate.set()
            assert b"message_stop" in b"".join(pieces)


def test_where_a_request_goes() -> None:
    """PROXY-41."""
    cases: list[tuple[str, dict[bytes, bytes], str]] = [
        ("/v1/messages/batches", {}, "anthropic"),
        ("/api/hello", {}, "anthropic"),
        ("/v1/models", {b"anthropic-version": b"1"}, "anthropic"),
        ("/v1/models", {b"authorization": b"Bearer x"}, "openai"),
        ("/", {b"user-agent": b"claude-cli/2.1.197"}, "anthropic"),
        ("/v1/responses", {}, "openai"),
        ("/v1/responses", {b"chatgpt-account-id": b"a"}, "chatgpt"),
        ("/backend-api/codex/responses", {}, "chatgpt"),
    ]
    for path, headers, family in cases:
        assert upstream.family(path, headers) == family, path
    base = "https://chatgpt.com/backend-api/codex"
    for given, path, there in [
        ("https://api.anthropic.com", "/v1/messages", "https://api.anthropic.com/v1/messages?beta=true"),
        (
            "https://openrouter.ai/api/v1",
            "/v1/chat/completions",
            "https://openrouter.ai/api/v1/chat/completions?beta=true",
        ),
        (base, "/backend-api/codex/responses", base + "/responses?beta=true"),
        (base, "/v1/responses", base + "/responses?beta=true"),
    ]:
        assert str(upstream.address(given, path, b"beta=true")) == there


def test_a_packed_request_is_read_or_refused(provider: Provider, proxy: Proxy) -> None:
    """PROXY-43."""
    raw = json.dumps(body(ONE)).encode()
    headers = {"x-claude-code-session-id": "s1", "user-agent": AGENT, "content-type": "application/json"}
    answer = proxy.client.post(
        "/v1/messages", content=zlib.compress(raw), headers={**headers, "content-encoding": "deflate"}
    )
    assert answer.status_code == 200
    assert "content-encoding" not in provider.seen[0].headers
    assert provider.seen[0].json["messages"]
    answer = proxy.client.post("/v1/messages", content=raw, headers={**headers, "content-encoding": "br"})
    assert answer.status_code == 400
    assert "compression" in answer.json()["error"]["message"]
    assert len(provider.seen) == 1
    packed = zstandard.compress(raw)
    assert upstream.plain_body(packed, {b"content-encoding": b"zstd"}, len(raw)) == raw
    zeros = zstandard.compress(bytes(50_000_000))  # a few kilobytes
    for encoding, given, problem in (
        ("gzip", b"no", MessageError),
        ("gzip", zlib.compress(raw)[:-9], MessageError),
        ("zstd", b"no", MessageError),
        ("zstd", packed[:-3], MessageError),
        ("zstd", zeros, MessageError),
    ):
        with pytest.raises(problem):
            upstream.plain_body(given, {b"content-encoding": encoding.encode()}, 10_000)
    with pytest.raises(TooLarge):
        upstream.plain_body(b"x" * 11, {}, 10)
    with pytest.raises(MessageError):
        upstream.plain_body(zlib.compress(b"x" * 1000), {b"content-encoding": b"deflate"}, 100)


def test_what_is_no_request_is_refused(provider: Provider, proxy: Proxy) -> None:
    """PROXY-63."""
    for raw in (b"", b"{", b"[]", b'{"messages":{}}', b'{"messages":[{"role":1}]}', b'{"messages":[]}'):
        answer = proxy.client.post("/v1/messages", content=raw, headers={"x-claude-code-session-id": "s"})
        assert answer.status_code == 400, raw
        assert answer.json()["type"] == "error"
    assert not provider.seen


def test_a_defect_of_ours_sends_nothing(provider: Provider, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROXY-63."""
    from foldlog.adapters.proxy import preparing

    def broken(*given: Any) -> Any:
        raise RuntimeError("a secret thing")

    monkeypatch.setattr(preparing, "_make", broken)
    answer = proxy.ask(ONE)
    assert answer.status_code == 500
    assert "RuntimeError" in answer.text
    assert "secret" not in answer.text
    assert not provider.seen


@pytest.mark.rule("FAIL-2")
def test_a_pass_that_breaks_sends_nothing_and_the_next_one_is_whole(
    provider: Provider, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: Any) -> Any:
        raise RuntimeError("a secret thing")

    with monkeypatch.context() as patch:
        patch.setattr(tagger, "tag", broken)
        answer = proxy.ask(ONE)
    assert answer.status_code == 500
    assert "foldlog has a defect: the decision broke" in answer.text
    assert "secret" not in answer.text
    assert not provider.seen
    assert proxy.ask(ONE).status_code == 200
    assert len(provider.seen) == 1


def test_two_sessions_at_once(provider: Provider, proxy: Proxy) -> None:
    """PROXY-45."""

    def talk(name: str) -> None:
        messages = [user(f"I am {name}")]
        for turn in range(8):
            assert proxy.ask(messages, session=name).status_code == 200
            messages += [assistant(f"{name} {turn}"), user(f"{name} goes on {turn}")]

    names = [f"s{index}" for index in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(talk, names))
    for name in names:
        found = [event for event in proxy.events(f"claude-code/{name}") if isinstance(event, ev.Pass)]
        assert [type(event).__name__ for event in found] == ["BaselineFolded"] + ["PassDeferred"] * 7
        mine = [seen.body for seen in provider.seen if seen.headers["x-claude-code-session-id"] == name]
        assert len(mine) == 8
        assert all(other.encode() + b" goes" not in raw for raw in mine for other in names if other != name)


def test_requests_of_one_session_at_once(provider: Provider, proxy: Proxy) -> None:
    """PROXY-45: one is decided after the other, and each answer is counted for its own."""
    proxy.ask(ONE)
    more = [*ONE, assistant("ok"), user("on")]
    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(lambda _: proxy.ask(more).status_code, range(16)))
    assert codes == [200] * 16
    found = proxy.events()
    numbers = [event.number for event in found if isinstance(event, ev.Pass)]
    assert numbers == sorted(set(numbers))
    assert all(event.number in numbers for event in found if isinstance(event, ev.UsageReported))
    engine = proxy.door.gate._engine
    assert not engine.audit("claude-code/s1").differences


def test_fifty_streams_at_once(provider: Provider, proxy: Proxy) -> None:
    """PROXY-46."""
    gate = threading.Event()
    provider.usual = streamed(events(), wait=gate)
    with ThreadPoolExecutor(50) as pool:
        asked = [pool.submit(proxy.ask, [user(f"I am {index}")], f"many{index}") for index in range(50)]
        wait_for(lambda: len(provider.seen) == 50 or any(one.done() for one in asked))
        assert len(provider.seen) == 50
        gate.set()
        assert [one.result().status_code for one in asked] == [200] * 50


def test_helper_calls_touch_no_session(provider: Provider, proxy: Proxy) -> None:
    """PROXY-44."""
    proxy.ask(ONE)
    before = len(proxy.events())
    raw = body([*ONE, user("Please write a 5-10 word title for this")], max_tokens=40)
    answer = proxy.client.post(
        "/v1/messages", json=raw, headers={"x-claude-code-session-id": "s1", "user-agent": AGENT}
    )
    assert answer.status_code == 200
    assert provider.seen[-1].json == raw
    assert len(proxy.events()) == before
    wait_for(lambda: len(proxy.moments()) == 2)
    assert [moment["kind"] for moment in proxy.moments()] == ["main", "helper"]


def test_a_beta_that_widens_the_window_is_seen(provider: Provider, proxy: Proxy) -> None:
    """PROXY-39."""
    proxy.ask(ONE)
    proxy.ask([*ONE, assistant("ok"), user("on")], headers={"anthropic-beta": "x-1,context-1m-2025-08-07"})
    limits = [event.context_limit for event in proxy.events() if isinstance(event, ev.ModelChanged)]
    assert limits == [200_000, 1_000_000]


def test_a_doubled_slash_or_a_needless_escape_is_no_other_path(provider: Provider, proxy: Proxy) -> None:
    """PROXY-40, PROXY-62: no spelling of a path gets a session's request past foldlog."""
    headers = {"x-claude-code-session-id": "s1", "user-agent": AGENT}
    for path in ("//v1/messages", "/v1/%6dessages", "/v1//messages", "/v1/messages/"):
        assert proxy.client.post(proxy.url + path, json=body(ONE), headers=headers).status_code == 200
        assert provider.seen[-1].path.rstrip("/") == "/v1/messages"
    assert all(moment["level"] not in ("", "raw") for moment in proxy.moments())
    assert len(proxy.moments()) == 4
    assert upstream.canonical("/a%2Fb/%c3%a9") == "/a%2Fb/%c3%a9"


def test_a_target_that_is_no_path_goes_nowhere(provider: Provider, proxy: Proxy) -> None:
    """PROXY-41."""
    import socket

    host, port = proxy.url.removeprefix("http://").split(":")
    for target in ("@evil.example/v1/models", "http://evil.example/v1/models", "*"):
        with socket.create_connection((host, int(port))) as link:
            link.sendall(f"GET {target} HTTP/1.1\r\nhost: {host}:{port}\r\nconnection: close\r\n\r\n".encode())
            assert link.recv(4_096).split()[1] in (b"400", b"404")
    assert not provider.seen

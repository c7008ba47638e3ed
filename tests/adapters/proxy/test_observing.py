"""Observing changes no byte, records the session, and says what foldlog would have sent, as an estimate."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import foldlog
from foldlog.adapters.config import Config
from foldlog.adapters.proxy.tally import Tally, summary
from foldlog.domain import events as ev
from foldlog.domain.errors import StoreUnavailable
from support.proxy import Provider, Proxy, assistant, body, error, failed, said, serving, streamed, user, wait_for

ONE = [user("hello")]


@pytest.fixture
def watching(config: Config) -> Iterator[Proxy]:
    with serving(config, lambda: foldlog.Engine.open("memory:", summarizer=None), observing=True) as found:
        yield found


def long(rounds: int) -> list[Any]:
    found: list[Any] = [user("look at everything")]
    for turn in range(rounds):
        call = {"type": "tool_use", "id": f"toolu_{turn}", "name": "Read", "input": {"path": f"/f{turn}"}}
        output = " ".join(f"line {turn} of word {n * 7919 % 1000}" for n in range(400))
        result = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": output}
        found += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return found


def test_every_byte_passes_untouched(provider: Provider, watching: Proxy) -> None:
    """PROXY-70."""
    raw = b' {"messages": [{"role":"user", "content":"h\\u0069"}],  "model":"claude-sonnet-4-5","stream":true}\n'
    headers = {"x-claude-code-session-id": "s1", "user-agent": "claude-cli/2", "x-api-key": "k", "x-any": "1"}
    answer = watching.client.post("/v1/messages?beta=true", content=raw, headers=headers)
    assert b"message_stop" in answer.content
    (seen,) = provider.seen
    assert (seen.body, seen.path) == (raw, "/v1/messages?beta=true")
    assert {name: seen.headers[name] for name in headers} == headers


def test_the_session_is_recorded_with_what_would_have_been_sent(provider: Provider, watching: Proxy) -> None:
    """PROXY-71."""
    provider.script = [
        said(input_tokens=3, cache_creation_input_tokens=3_000), said(input_tokens=40, cache_read_input_tokens=3_000),
    ]  # fmt: skip
    watching.ask(ONE)
    wait_for(lambda: len(watching.moments()) == 1)
    watching.ask([*ONE, assistant("ok"), user("on")])
    wait_for(lambda: len(watching.moments()) == 2)
    found = watching.events("claude-code-observed/s1")
    assert [type(event).__name__ for event in found if isinstance(event, ev.Pass)] == ["BaselineFolded", "PassDeferred"]
    first, second = watching.moments()
    assert (first["level"], second["level"], second["session"]) == (
        "would be hard", "would be defer", "claude-code-observed/s1",
    )  # fmt: skip
    assert (second["input"], second["cached"]) == (40, 3_000)  # the provider's own, of what was sent
    assert second["would"]["total_told"] == round(3 + 3_000 * 1.25 + 5 * 5 + 40 + 300 + 5 * 5)
    assert second["would"]["tokens"] > 3_000
    built = watching.door.gate._engine.replay("claude-code-observed/s1", 1)
    assert json.loads(built.messages[-1])["content"][-1]["text"].endswith("hello")


def test_an_hours_cache_is_priced_as_one(provider: Provider, watching: Proxy) -> None:
    """PROXY-72."""
    marked = {"type": "text", "text": "hello", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    raw = json.dumps(body([{"role": "user", "content": [marked]}]), separators=(",", ":"))
    provider.script = [said(cache_creation_input_tokens=1_000, input_tokens=0)]
    watching.client.post("/v1/messages", content=raw, headers={"x-claude-code-session-id": "s1"})
    wait_for(watching.moments)
    assert watching.moments()[0]["would"]["total_told"] == 2_000 + 25


def test_a_request_too_long_for_the_window_is_not_sent_again(provider: Provider, watching: Proxy) -> None:
    """PROXY-70."""
    raw = json.dumps(error("invalid_request_error", "prompt is too long: 208380 tokens > 200000 maximum")).encode()
    provider.script = [failed(400, raw)]
    answer = watching.ask(long(60))
    assert (answer.status_code, answer.content) == (400, raw)
    wait_for(watching.moments)
    assert len(provider.seen) == 1
    assert watching.moments()[0]["outcome"] == "overflow"
    assert not [e for e in watching.events("claude-code-observed/s1") if isinstance(e, ev.OverflowReported)]


def test_a_refusal_that_is_no_json_is_read_too(provider: Provider, watching: Proxy) -> None:
    """PROXY-70: a gateway's own words tell an overflow as well."""
    raw = b"prompt is too long: 208380 tokens > 200000 maximum"
    provider.script = [failed(400, raw)]
    answer = watching.ask(ONE)
    assert (answer.status_code, answer.content) == (400, raw)
    wait_for(watching.moments)
    assert watching.moments()[0]["outcome"] == "overflow"


def test_recording_never_delays_a_request(provider: Provider, watching: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROXY-70."""
    from foldlog.adapters.proxy import preparing

    real, gate = preparing._make, threading.Event()

    def slow(*given: Any) -> Any:
        gate.wait(10)
        return real(*given)

    monkeypatch.setattr(preparing, "_make", slow)
    assert watching.ask(ONE).status_code == 200
    assert not watching.door.feed._kept
    gate.set()
    wait_for(watching.moments)
    assert watching.moments()[0]["would"]


def test_a_store_that_cannot_be_used_changes_nothing(provider: Provider, config: Config) -> None:
    """PROXY-70."""

    def closed() -> foldlog.Engine:
        raise StoreUnavailable("gone")

    with serving(config, closed, observing=True) as proxy:
        assert proxy.ask(ONE).status_code == 200
        wait_for(proxy.moments)
        assert proxy.moments()[0]["note"] == "not recorded: FAIL_CLOSED_BLOCKING"


def test_a_stream_that_breaks_is_seen(provider: Provider, watching: Proxy) -> None:
    """PROXY-71."""
    from support.proxy import events

    provider.script = [streamed(events(input_tokens=50), cut=3)]
    with pytest.raises(Exception, match=r"(?i)peer closed|incomplete|disconnected"):
        watching.ask(ONE)
    wait_for(watching.moments)
    assert watching.moments()[0]["outcome"] == "broken"


def test_both_estimates_follow_the_same_rules(provider: Provider, watching: Proxy) -> None:
    """PROXY-72: a provider that never caches makes neither of them look better than the other."""
    provider.usual = said(input_tokens=30_000)
    messages = long(8)
    for turn in range(4):
        watching.ask(messages)
        wait_for(lambda turn=turn: len(watching.moments()) == turn + 1)
        messages = [*messages, assistant(f"so far {turn}"), user(f"on {turn}")]
    last = watching.moments()[-1]["would"]
    assert last["total_told"] == 4 * (30_000 + 25)
    assert last["total_as_sent"] < last["total_told"] / 2
    assert 0.95 < last["total"] / last["total_as_sent"] < 1.1


def test_the_summary_is_one_line_and_says_what_is_estimated() -> None:
    """PROXY-72."""
    tallies = [Tally("anthropic-5m", 3, 900, 1_000, 600, 9_000, 5_000), Tally("anthropic-5m", 1, 800, 1_000, 600, 2, 2)]
    line = summary(tallies)
    assert "\n" not in line
    assert "Estimated" in line
    for word in ("4 requests", "2 sessions", "1,700", "2,000", "1,200", "40 % less", "9,000", "5,000"):
        assert word in line
    assert "no request" in summary([Tally("anthropic-5m")])

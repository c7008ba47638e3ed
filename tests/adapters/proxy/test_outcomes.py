"""What becomes of a request: each way it can end leaves the session consistent, and is told once."""

from __future__ import annotations

import gzip
import json
import threading
from typing import Any

import pytest
from structlog.testing import capture_logs

import foldlog
from foldlog.adapters.config import Config
from foldlog.adapters.proxy.protocols import protocol_for
from foldlog.domain import events as ev
from support.proxy import (
    AGENT,
    KEY,
    Provider,
    Proxy,
    assistant,
    body,
    error,
    events,
    failed,
    goes_away,
    hung_up,
    said,
    serving,
    streamed,
    user,
    wait_for,
)

ONE = [user("hello")]
TWO = [*ONE, assistant("ok"), user("go on")]
TOO_LONG = error("invalid_request_error", "prompt is too long: 208380 tokens > 200000 maximum")


def told(proxy: Proxy, kind: type) -> list[Any]:
    return [event for event in proxy.events() if isinstance(event, kind)]


def passes(proxy: Proxy) -> list[str]:
    return [type(event).__name__ for event in told(proxy, ev.Pass)]


def test_an_answer_goes_through_untouched_and_its_usage_is_recorded(provider: Provider, proxy: Proxy) -> None:
    """PROXY-50."""
    pieces = events(input_tokens=7, cache_read_input_tokens=100, cache_creation_input_tokens=3, id="msg_1")
    provider.script = [streamed(pieces)]
    answer = proxy.ask(ONE)
    assert answer.status_code == 200
    assert answer.content == b"".join(pieces)
    assert answer.headers["request-id"] == "req_1"
    (usage,) = told(proxy, ev.UsageReported)
    assert (usage.number, usage.input, usage.cache_read, usage.cache_write, usage.output) == (1, 7, 100, 3, 5)
    assert provider.seen[0].json["messages"][-1]["content"][-1]["text"].endswith("hello")
    assert proxy.ask(TWO).status_code == 200
    assert passes(proxy) == ["BaselineFolded", "PassDeferred"]


def test_usage_that_comes_behind_the_end_of_an_answer_is_waited_for(provider: Provider, proxy: Proxy) -> None:
    """PROXY-50: Chat Completions tell why they stop in one chunk and the figures in the next."""
    stop = {"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}], "usage": None}
    figures = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}
    pieces = [f"data: {json.dumps({'id': 'c1', **chunk})}\n\n".encode() for chunk in (stop, figures)]
    provider.script = [streamed([*pieces, b"data: [DONE]\n\n"])]
    asked = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    asked["tools"] = [{"type": "function", "function": {"name": "read"}}]
    headers = {"x-session-id": "c", "authorization": f"Bearer {KEY}"}
    assert proxy.client.post("/v1/chat/completions", json=asked, headers=headers).status_code == 200
    (usage,) = [event for event in proxy.events("proxy/c") if isinstance(event, ev.UsageReported)]
    assert (usage.input, usage.output) == (9, 2)


def test_an_answer_in_one_piece_is_read_too(provider: Provider, proxy: Proxy) -> None:
    """PROXY-50."""
    answer = {
        "id": "msg_9", "type": "message", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": "ok"}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 4, "output_tokens": 2},
    }  # fmt: skip
    provider.script = [failed(200, answer)]
    assert proxy.ask(ONE, stream=False).json() == answer
    (usage,) = told(proxy, ev.UsageReported)
    assert (usage.input, usage.output) == (4, 2)


@pytest.mark.rule("FAIL-3")
@pytest.mark.parametrize("observe", [False, True])
@pytest.mark.parametrize("what", ["feed", "result"])
def test_a_usage_that_cannot_be_read_costs_no_answer(
    provider: Provider, config: Config, what: str, observe: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: Any) -> Any:
        raise RuntimeError("a secret thing")

    meter = type(protocol_for("POST", "/v1/messages").meter())
    engine = foldlog.Engine.open("memory:", summarizer=None)
    with serving(config, lambda: engine, observing=observe) as proxy, capture_logs() as logs:
        monkeypatch.setattr(meter, what, broken)
        pieces = events(input_tokens=7)
        provider.script = [streamed(pieces), streamed(pieces)]
        assert proxy.ask(ONE).content == b"".join(pieces)
        assert proxy.ask(TWO).content == b"".join(pieces)
        assert observe or told(proxy, ev.UsageReported) == []
        wait_for(lambda: [one["part"] for one in logs if "part" in one] == ["usage", "usage"])
    assert "secret" not in str(logs)


def test_a_packed_answer_is_passed_on_packed_and_read(provider: Provider, proxy: Proxy) -> None:
    """PROXY-42: what neither side can read is not asked for."""
    packed = gzip.compress(b"".join(events(input_tokens=77)))

    def reply(handler: Any, seen: Any) -> None:
        failed(200, packed, content_encoding="gzip")(handler, seen)

    provider.script = [reply]
    answer = proxy.ask(ONE, headers={"accept-encoding": "gzip, br;q=0.9, zstd"})
    assert b"message_stop" in answer.content
    assert provider.seen[0].headers["accept-encoding"] == "gzip"
    assert told(proxy, ev.UsageReported)[0].input == 77


def test_usage_is_there_before_the_next_request_is_decided(provider: Provider, proxy: Proxy) -> None:
    """PROXY-50, PROXY-45: the client may go on at the last event, before the connection is at its end."""
    gate = threading.Event()
    provider.script = [streamed(events(), end=gate)]
    headers = {"x-claude-code-session-id": "s1", "user-agent": AGENT}
    with proxy.client.stream("POST", "/v1/messages", json=body(ONE), headers=headers) as answer:
        pieces = answer.iter_raw()  # kept: the connection stays open
        while b"message_stop" not in next(pieces):
            pass
        assert proxy.ask(TWO).status_code == 200
        gate.set()
    kinds = [type(event) for event in proxy.events() if isinstance(event, ev.Pass | ev.UsageReported)]
    assert kinds == [ev.BaselineFolded, ev.UsageReported, ev.PassDeferred, ev.UsageReported]
    assert not [event for event in proxy.events() if isinstance(event, ev.RequestOutcome)]


@pytest.mark.parametrize(
    ("status", "kind", "outcome"),
    [
        (400, "invalid_request_error", "not_processed"),
        (401, "authentication_error", "not_processed"),
        (429, "rate_limit_error", "not_processed"),
        (529, "overloaded_error", "not_processed"),
        (500, "api_error", "unknown"),
        (503, "api_error", "unknown"),
    ],
)
def test_an_error_is_the_providers_own_and_recorded(
    provider: Provider, proxy: Proxy, status: int, kind: str, outcome: str
) -> None:
    """PROXY-52."""
    raw = json.dumps(error(kind, "no, not now")).encode() + b"  "
    provider.script = [failed(status, raw, retry_after="7")]
    answer = proxy.ask(ONE)
    assert (answer.status_code, answer.content, answer.headers["retry-after"]) == (status, raw, "7")
    (event,) = told(proxy, ev.RequestOutcome)
    assert (event.number, event.outcome) == (1, outcome)
    assert len(provider.seen) == 1
    assert proxy.ask(ONE).status_code == 200  # the client's own retry
    assert [event.number for event in told(proxy, ev.UsageReported)] == [told(proxy, ev.Pass)[-1].number]


def test_a_provider_that_is_not_there(provider: Provider, proxy: Proxy) -> None:
    """PROXY-53."""
    provider.close()
    answer = proxy.ask(ONE)
    assert answer.status_code == 502
    assert answer.json()["error"]["type"] == "api_error"
    assert "no answer from 127.0.0.1" in answer.json()["error"]["message"]
    assert [event.outcome for event in told(proxy, ev.RequestOutcome)] == ["not_processed"]


def test_a_provider_that_hangs_up(provider: Provider, proxy: Proxy) -> None:
    """PROXY-53: nobody knows whether it had begun."""
    provider.script = [hung_up]
    assert proxy.ask(ONE).status_code == 502
    assert [event.outcome for event in told(proxy, ev.RequestOutcome)] == ["unknown"]


def test_a_stream_that_breaks_breaks_for_the_client_too(provider: Provider, proxy: Proxy) -> None:
    """PROXY-54."""
    provider.script = [streamed(events(input_tokens=50), cut=3)]
    with pytest.raises(Exception, match=r"(?i)peer closed|incomplete|disconnected"):
        proxy.ask(ONE)
    (usage,) = told(proxy, ev.UsageReported)
    assert usage.input == 50  # the provider had read the prompt, and said so
    assert [event.outcome for event in told(proxy, ev.RequestOutcome)] == ["broken"]
    assert proxy.ask(ONE).status_code == 200


def test_an_error_inside_a_stream(provider: Provider, proxy: Proxy) -> None:
    """PROXY-54."""
    event = f"event: error\ndata: {json.dumps(error('overloaded_error', 'Overloaded'))}\n\n".encode()
    pieces = [*events()[:3], event]
    provider.script = [streamed(pieces)]
    assert proxy.ask(ONE).content == b"".join(pieces)
    assert [event.outcome for event in told(proxy, ev.RequestOutcome)] == ["broken"]


def test_a_client_that_goes_away_in_the_middle_of_an_answer(provider: Provider, proxy: Proxy) -> None:
    """PROXY-55."""
    gate = threading.Event()
    provider.script = [streamed(events(input_tokens=60), wait=gate)]
    goes_away(proxy, ONE, after=b"message_start")
    wait_for(lambda: proxy.door.feed._kept)
    gate.set()
    assert [event.outcome for event in told(proxy, ev.RequestOutcome)] == ["aborted"]
    assert [event.input for event in told(proxy, ev.UsageReported)] == [60]
    assert proxy.ask(TWO).status_code == 200
    assert passes(proxy)[-1] == "PassDeferred"


def test_a_client_that_goes_away_before_the_answer(provider: Provider, proxy: Proxy) -> None:
    """PROXY-55."""
    gate = threading.Event()

    def late(handler: Any, seen: Any) -> None:
        gate.wait(10)
        said()(handler, seen)

    provider.script = [late]
    goes_away(proxy, ONE, when=lambda: provider.seen)
    wait_for(lambda: proxy.door.feed._kept)
    gate.set()
    assert [event.outcome for event in told(proxy, ev.RequestOutcome)] == ["aborted"]
    assert proxy.ask(ONE).status_code == 200


def test_a_client_that_goes_away_while_its_request_is_made(
    provider: Provider, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROXY-55: what the thread still made was never sent."""
    from foldlog.adapters.proxy import preparing

    real, begun, gate = preparing._make, threading.Event(), threading.Event()

    def slow(*given: Any) -> Any:
        begun.set()
        gate.wait(10)
        return real(*given)

    monkeypatch.setattr(preparing, "_make", slow)
    goes_away(proxy, ONE, when=begun.is_set)
    wait_for(lambda: any("_unsent" in repr(task) for task in list(proxy.door.tasks)))
    gate.set()
    wait_for(lambda: proxy.door.feed._kept)
    assert [event.outcome for event in told(proxy, ev.RequestOutcome)] == ["not_processed"]
    assert not provider.seen


def test_the_same_answer_twice_is_counted_once(provider: Provider, proxy: Proxy) -> None:
    """PROXY-51: by the provider's own id of it."""
    provider.usual = said(id="msg_same")
    proxy.ask(ONE)
    proxy.ask(ONE)
    assert len(told(proxy, ev.UsageReported)) == 1
    assert len(told(proxy, ev.Pass)) == 2

"""A request the provider refuses as too long: learnt from, sent once more where a fold makes it fit."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import httpx
import pytest

import foldlog
from foldlog.adapters.config import Config
from foldlog.adapters.models.windows import Limits
from foldlog.adapters.proxy import preparing
from foldlog.domain import events as ev
from support.proxy import Provider, Proxy, error, events, failed, goes_away, serving, streamed, user, wait_for

TOO_LONG = error("invalid_request_error", "prompt is too long: 208380 tokens > 200000 maximum")


def history(rounds: int, words: int = 400) -> list[Any]:
    """A tool loop whose outputs are large and all different."""
    found: list[Any] = [user("look at everything")]
    for turn in range(rounds):
        call = {"type": "tool_use", "id": f"toolu_{turn}", "name": "Read", "input": {"path": f"/f{turn}"}}
        output = " ".join(f"line {turn} of word {n * 7919 % 1000}" for n in range(words))
        result = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": [{"type": "text", "text": output}]}
        found += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return found


def told(proxy: Proxy, kind: Any) -> list[Any]:
    return [event for event in proxy.events() if isinstance(event, kind)]


def test_what_a_fold_makes_fit_is_sent_once_more_before_the_client_sees_anything(
    provider: Provider, proxy: Proxy
) -> None:
    """PROXY-56."""
    pieces = events(input_tokens=90_000)
    provider.script = [failed(400, TOO_LONG), streamed(pieces)]
    answer = proxy.ask(history(60))
    assert (answer.status_code, answer.content) == (200, b"".join(pieces))
    first, second = provider.seen
    assert len(second.body) < len(first.body)
    assert b"[dropped" in second.body
    (overflow,) = told(proxy, ev.OverflowReported)
    assert (overflow.limit, overflow.used) == (200_000, 208_380)
    assert [event.number for event in told(proxy, ev.UsageReported)] == [2]
    moments = proxy.moments()
    assert [moment["outcome"] for moment in moments] == ["overflow", "answered"]


def test_a_second_refusal_is_the_clients(provider: Provider, proxy: Proxy) -> None:
    """PROXY-56: once, and no more."""
    raw = json.dumps(error("invalid_request_error", "prompt is too long: 201000 tokens > 200000 maximum")).encode()
    provider.script = [failed(400, TOO_LONG), failed(400, raw)]
    answer = proxy.ask(history(60))
    assert (answer.status_code, answer.content) == (400, raw)
    assert len(provider.seen) == 2
    assert len(told(proxy, ev.OverflowReported)) == 2


def test_where_nothing_can_be_left_out_the_client_gets_the_providers_answer(provider: Provider, proxy: Proxy) -> None:
    """PROXY-56."""
    raw = json.dumps(TOO_LONG, indent=1).encode()
    provider.script = [failed(400, raw, x_request="abc")]
    answer = proxy.ask([user("hello")])
    assert (answer.status_code, answer.content, answer.headers["x-request"]) == (400, raw, "abc")
    assert len(provider.seen) == 1


def test_an_overflow_the_answer_is_to_blame_for_is_not_folded_away(provider: Provider, proxy: Proxy) -> None:
    """PROXY-56: the input fits; what was asked for does not."""
    words = "input length and `max_tokens` exceed context limit: 90402 + 116650 > 204648, decrease input length"
    provider.script = [failed(400, error("invalid_request_error", words))]
    assert proxy.ask(history(60)).status_code == 400
    assert len(provider.seen) == 1


TOO_MUCH = "input length and `max_tokens` exceed context limit: 90402 + 116650 > 204648, decrease input length"


@pytest.mark.rule("PROXY-57")
def test_an_answer_that_does_not_fit_is_asked_for_shorter(provider: Provider, proxy: Proxy) -> None:
    """The client sees the answer; nothing of its history is touched for it."""
    pieces = events(input_tokens=90_402)
    provider.script = [failed(400, error("invalid_request_error", TOO_MUCH)), streamed(pieces)]
    answer = proxy.ask(history(60), max_tokens=116_650)
    assert (answer.status_code, answer.content) == (200, b"".join(pieces))
    first, second = (json.loads(seen.body) for seen in provider.seen)
    assert second.pop("max_tokens") == 204_648 - 90_402 - 256
    assert first.pop("max_tokens") == 116_650
    assert first == second
    assert proxy.ask([*history(60), {"role": "assistant", "content": "ok"}, user("on")]).status_code == 200
    assert json.loads(provider.seen[2].body)["max_tokens"] == 1_000


@pytest.mark.rule("PROXY-57")
@pytest.mark.parametrize(
    ("words", "given"),
    [
        (TOO_MUCH, {"max_tokens": 1_000}),
        (TOO_MUCH, {"max_tokens": 116_650, "thinking": {"type": "enabled", "budget_tokens": 114_000}}),
        (TOO_MUCH.replace("90402", "203900").replace("116650", "8192"), {"max_tokens": 8_192}),
        ("max_tokens: 300000 > 64000, which is the maximum allowed number of output tokens", {"max_tokens": 300_000}),
    ],
    ids=["asked-for-less", "thinking-takes-it", "no-room", "another-limit"],
)
def test_what_shortening_does_not_help_is_the_clients(
    provider: Provider, proxy: Proxy, words: str, given: dict[str, Any]
) -> None:
    provider.script = [failed(400, error("invalid_request_error", words))]
    assert proxy.ask([user("hello")], **given).status_code == 400
    assert len(provider.seen) == 1


def test_a_rate_limit_is_no_overflow(provider: Provider, proxy: Proxy) -> None:
    words = "This request would exceed your organization's rate limit of 80,000 input tokens per minute"
    provider.script = [failed(429, error("rate_limit_error", words))]
    assert proxy.ask(history(60)).status_code == 429
    assert len(provider.seen) == 1
    assert not told(proxy, ev.OverflowReported)


def test_what_the_engine_refuses_is_said_in_the_providers_shape(provider: Provider, config: Config) -> None:
    """PROXY-63."""
    small = config.model_copy(update={"models": {"claude-*": Limits(context=20_000)}})
    with serving(small, lambda: foldlog.Engine.open("memory:", summarizer=None)) as proxy:
        answer = proxy.ask([user(" ".join(f"word {n * 7919 % 1000}" for n in range(20_000)))])
        assert answer.status_code == 400
        said = answer.json()["error"]
        assert said["type"] == "invalid_request_error"
        assert "longer than the model's window" in said["message"]
        assert "UNMANAGED_OVER_WINDOW" in said["message"]
        assert answer.headers["x-should-retry"] == "false"
        assert [event.code for event in told(proxy, ev.PassRefused)] == ["UNMANAGED_OVER_WINDOW"]
        assert proxy.moments()[-1]["note"] == "UNMANAGED_OVER_WINDOW"
    assert not provider.seen


def event(kind: str, **more: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode()


ASKED = {"text": {"format": {"type": "text"}}, "tools": [{"type": "function", "name": "read"}]}
RECEIPTS = [
    event(f"response.{name}", response={"id": "resp_1", "status": "in_progress", **ASKED})
    for name in ("created", "in_progress")
]
REFUSAL = event(
    "response.failed",
    response={
        "id": "resp_1",
        "status": "failed",
        "error": {
            "code": "context_length_exceeded",
            "message": "Your input exceeds the context window of this model. Please adjust your input and try again.",
        },
    },
)
ANSWER = [
    *RECEIPTS,
    event("response.output_item.done", item={"type": "message", "content": [{"type": "output_text", "text": "ok"}]}),
    event("response.completed", response={"id": "resp_2", "usage": {"input_tokens": 9, "output_tokens": 2}}),
]


def items(rounds: int) -> list[Any]:
    """The same tool loop as items of the Responses wire."""
    found: list[Any] = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "look"}]}]
    for turn in range(rounds):
        output = " ".join(f"line {turn} of word {n * 7919 % 1000}" for n in range(400))
        call = {
            "type": "function_call",
            "call_id": f"call_{turn}",
            "name": "read",
            "arguments": f'{{"path":"/f{turn}"}}',
        }
        found += [call, {"type": "function_call_output", "call_id": f"call_{turn}", "output": output}]
    return found


def respond(proxy: Proxy, rounds: int) -> Any:
    raw = {"model": "gpt-5.2", "stream": True, "store": False, "instructions": "You work.", "input": items(rounds)}
    return proxy.client.post(
        "/v1/responses", json=raw, headers={"session-id": "t1", "authorization": "Bearer k-123456"}
    )


def split(raw: bytes) -> list[bytes]:
    return [raw[at : at + 9] for at in range(0, len(raw), 9)]


@pytest.mark.parametrize("pieces", [[*RECEIPTS, REFUSAL], split(b"".join([*RECEIPTS, REFUSAL]))])
def test_a_refusal_behind_a_status_of_200_is_seen_before_the_client_sees_it(
    provider: Provider, proxy: Proxy, pieces: list[bytes]
) -> None:
    """PROXY-56: in whatever pieces it comes."""
    provider.script = [streamed(pieces), streamed(ANSWER)]
    answer = respond(proxy, 60)
    assert answer.content == b"".join(ANSWER)
    assert len(provider.seen[1].body) < len(provider.seen[0].body)
    assert [moment["outcome"] for moment in proxy.moments()] == ["overflow", "answered"]


def test_such_a_refusal_with_no_remedy_goes_through_as_it_is(provider: Provider, proxy: Proxy) -> None:
    """PROXY-56."""
    provider.script = [streamed([*RECEIPTS, REFUSAL])]
    answer = respond(proxy, 0)
    assert (answer.status_code, answer.content) == (200, b"".join([*RECEIPTS, REFUSAL]))
    assert len(provider.seen) == 1
    assert [moment["outcome"] for moment in proxy.moments()] == ["overflow"]


@pytest.mark.parametrize("pieces", [[*RECEIPTS, REFUSAL], [REFUSAL]])
def test_what_was_held_back_when_a_stream_breaks_is_the_clients(
    provider: Provider, proxy: Proxy, pieces: list[bytes]
) -> None:
    """PROXY-54, PROXY-56."""
    provider.script = [streamed(pieces, cut=len(pieces) - 1)]
    raw = {"model": "gpt-5.2", "stream": True, "store": False, "input": items(1)}
    headers = {"session-id": "t1", "authorization": "Bearer k-123456"}
    got = b""
    with proxy.client.stream("POST", "/v1/responses", json=raw, headers=headers) as answer:
        assert answer.status_code == 200
        with pytest.raises(httpx.RemoteProtocolError):
            for piece in answer.iter_raw():
                got += piece
    assert got == b"".join(pieces[:-1])
    assert [moment["outcome"] for moment in proxy.moments()] == ["broken"]


def test_a_refusal_behind_a_part_of_an_answer_is_learnt_from_and_nothing_is_made_for_it(
    provider: Provider, proxy: Proxy
) -> None:
    """PROXY-56: the client has seen that part."""
    pieces = [*ANSWER[:-1], REFUSAL]
    provider.script = [streamed(pieces)]
    assert respond(proxy, 60).content == b"".join(pieces)
    assert len(provider.seen) == 1
    assert [moment["outcome"] for moment in proxy.moments()] == ["overflow"]
    found = [type(one).__name__ for one in proxy.events("proxy/t1") if isinstance(one, ev.Pass | ev.OverflowReported)]
    assert found == ["BaselineFolded", "OverflowReported"]


def test_a_client_that_goes_away_while_its_request_is_made_smaller(
    provider: Provider, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROXY-55: the refusal is kept, and what was made behind it was never sent."""
    real, begun, gate = preparing.again, threading.Event(), threading.Event()

    async def slow(*given: Any) -> Any:
        begun.set()
        await asyncio.to_thread(gate.wait, 10)
        return await real(*given)

    monkeypatch.setattr(preparing, "again", slow)
    provider.script = [failed(400, TOO_LONG)]
    goes_away(proxy, history(60), when=begun.is_set)
    wait_for(lambda: any("_unsent" in repr(task) for task in list(proxy.door.tasks)))
    gate.set()
    proxy.settle()
    assert [moment["outcome"] for moment in proxy.moments()] == ["overflow", "not_processed"]
    assert [(one.number, one.outcome) for one in told(proxy, ev.RequestOutcome)] == [(2, "not_processed")]
    assert len(provider.seen) == 1


def test_receipts_and_what_follows_go_through_in_order(provider: Provider, proxy: Proxy) -> None:
    """PROXY-50, PROXY-56."""
    for pieces in (ANSWER, [b"".join(ANSWER)], [bytes([byte]) for byte in b"".join(ANSWER)]):
        provider.script = [streamed(pieces)]
        assert respond(proxy, 1).content == b"".join(ANSWER)
    assert {moment["outcome"] for moment in proxy.moments()} == {"answered"}

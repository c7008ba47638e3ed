"""What providers say when a request is too long, and what only sounds like it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldlog.domain.overflow import OVERFLOWS, explain

VECTORS = json.loads((Path(__file__).parents[3] / "specs" / "vectors" / "overflow.json").read_text(encoding="utf-8"))
ERRORS: list[dict[str, Any]] = VECTORS["errors"]
NUMBERED = [one for one in ERRORS if one["limit"] or one["used"]]


def ids(one: dict[str, Any]) -> str:
    return f"{one['id']} {one['from']}"


def holds(one: dict[str, Any], text: str | bytes, status: int | None = None) -> None:
    said = explain(status, text)
    told = {"overflow": said.overflow, "limit": said.limit, "used": said.used, "kind": said.kind}
    assert told == {name: one[name] for name in told}, (text, said.provenance)
    assert said.output_driven == (one["kind"] == "output_driven")
    assert said.what_to_do


@pytest.mark.rule("OVER-1", "OVER-2", "OVER-3", "OVER-4")
@pytest.mark.parametrize("one", ERRORS, ids=ids)
def test_each_recorded_error_is_what_it_is(one: dict[str, Any]):
    holds(one, one["text"])
    holds(one, one["text"].encode())


def openai(text: str) -> str:
    return json.dumps({"error": {"message": text, "type": "invalid_request_error", "param": "messages", "code": None}})


def raw_in_a_gateway(text: str) -> str:
    inner = json.dumps({"error": {"message": text, "code": 400}})
    return json.dumps({"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": inner}}})


def escaped(text: str) -> str:
    quoted = json.dumps(text)[1:-1].replace("<", "\\u003c").replace(">", "\\u003e")
    return '{"type":"error","error":{"type":"invalid_request_error","message":"' + quoted


WRAPPED: dict[str, Callable[[str], str]] = {
    "OpenAI's body": openai,
    "Anthropic's body": lambda text: json.dumps(
        {"type": "error", "error": {"type": "invalid_request_error", "message": text}}
    ),
    "a body in a string": lambda text: json.dumps(openai(text)),
    "a gateway": raw_in_a_gateway,
    "a list": lambda text: json.dumps([{"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}}]),
    "AWS": lambda text: json.dumps({"__type": "ValidationException", "message": text}),
    "FastAPI": lambda text: json.dumps({"detail": [{"type": "value_error", "loc": ["body"], "msg": text}]}),
    "an SDK": lambda text: f"Error code: 400 - {openai(text)}",
    "Python": lambda text: (
        f"openai.BadRequestError: Error code: 400 - {{'error': {{'message': {text!r}, 'code': None}}}}"
    ),
    "a proxy's prefix": lambda text: (
        f"litellm.BadRequestError: VendorException - {openai(text)}. Received Model Group=x"
    ),
    "a translated prefix": lambda text: f"请求失败（模型返回错误）：{text}",
    "another prefix": lambda text: f"Übertragungsfehler: {text} – bitte prüfen",
    "a stream": lambda text: f'event: error\ndata: {{"type":"error","error":{{"message":{json.dumps(text)}}}}}\n\n',
    "a stream's end": lambda text: (
        f'data: {{"choices":[{{"delta":{{"content":"hi"}}}}]}}\n\ndata: {openai(text)}\n\ndata: [DONE]\n'
    ),
    "Responses": lambda text: json.dumps(
        {"type": "response.failed", "response": {"error": {"code": "x", "message": text}}}
    ),
    "a log's line": lambda text: f"2025-03-14 12:44:19.705 | ERROR    | app.llm:ask_tool:278 - request failed: {text}",
    "another log's": lambda text: f"[2026-09-15T09:36:38.697+08:00] [error] 10.0.0.7:8080 request 14:05:59 {text}",
    "a model's name": lambda text: (
        f"[openai/gpt-4-1106-preview] {text} (model: glm-4-9b-128k, qwen2.5-72b-instruct-131072)"
    ),
    "an id": lambda text: (
        f"{text} (request id: 202504050808476211941993G1b22XE, GH F680:9BF9A:15BFBF5:1874AAA:696FF32F)"
    ),
    "retries": lambda text: f"stream disconnected before completion: {text}; retrying 4/5 in 1.634s…",
    "a trace": lambda text: (
        f"Error: {text}\n    at B9.generate (file:///x/cli.js:459:10797)\n    at makeRequest (/$b:51:7694)"
    ),
    "a gateway's tail": lambda text: (
        f"{text}. Received Model Group=claude-3-5-sonnet-20241022\nModel Group Fallbacks=None (reset after 23s)"
    ),
    "cut off": escaped,
    "HTML": lambda text: f"<html><body><h1>Bad Request</h1><p>{html.escape(text)}</p></body></html>",
    "capitals": str.upper,
    "small letters": str.lower,
    "full width": lambda text: "".join(chr(ord(c) + 0xFEE0) if c.isdigit() else c for c in text),
    "line breaks": lambda text: text.replace(" ", "\r\n  ", 3),
}
PLAIN = [one for one in ERRORS if not one["text"].startswith(("{", "413", "429")) and "(HTTP" not in one["text"]]


@pytest.mark.rule("OVER-5")
@pytest.mark.parametrize("how", WRAPPED)
@pytest.mark.parametrize("one", PLAIN, ids=ids)
def test_what_stands_around_an_error_changes_nothing(one: dict[str, Any], how: str):
    holds(one, WRAPPED[how](one["text"]))


def moved(one: dict[str, Any], factor: int, grouped: str) -> dict[str, Any]:
    """The same error with every figure of tokens times ``factor``, its digits in groups."""

    def write(number: re.Match[str]) -> str:
        value = int(number[0]) * factor
        return f"{value:,}".replace(",", grouped) if grouped else str(value)

    text = re.sub(r"(?<![\w.-])\d{2,}(?:(?=tokens)|(?![\w.]\w))", write, one["text"])
    return {**one, "text": text, "limit": one["limit"] * factor, "used": one["used"] * factor}


@pytest.mark.rule("OVER-3", "OVER-6")
@pytest.mark.parametrize("grouped", ["", ",", ".", "'", "_", "\u00a0", "\u202f"])
@pytest.mark.parametrize("one", NUMBERED, ids=ids)
def test_other_figures_in_other_groups_are_read_the_same(one: dict[str, Any], grouped: str):
    grouped = "" if one["text"].startswith("{") else grouped  # numbers of JSON have no groups
    for factor in (1, 3, 7):
        other = moved(one, factor, grouped)
        holds(other, other["text"])


CODES = (400, 408, 413, 429, 500, 503, 529, 1000, 1009, 1011, 4096)
"""Numbers that mean something where they are a status or a close code: a count of tokens may be just that one."""


@pytest.mark.rule("OVER-3", "OVER-6")
@pytest.mark.parametrize("count", CODES)
@pytest.mark.parametrize("one", [one for one in NUMBERED if one["overflow"]], ids=ids)
def test_no_figure_decides_what_kind_of_refusal_it_is(one: dict[str, Any], count: int):
    figures = [found.span() for found in re.finditer(r"(?<![\w.,:\"'-])\d{3,}(?![\w\"'-]|[.,]\d)", one["text"])]
    for begin, end in figures:
        text = f"{one['text'][:begin]}{count}{one['text'][end:]}"
        assert explain(None, text).overflow, text


KINDS: dict[str, list[str]] = VECTORS["kinds"]


@pytest.mark.rule("OVER-1", "OVER-2", "OVER-4", "OVER-8")
@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in KINDS.items() for text in texts])
def test_wordings_of_no_list_are_of_their_kind(kind: str, text: str):
    said = explain(None, text)
    assert (said.kind, said.overflow) == (kind, kind in OVERFLOWS), said


@pytest.mark.rule("OVER-1", "OVER-3")
@pytest.mark.parametrize("one", VECTORS["figures"], ids=lambda one: one["text"][:60])
def test_overflows_of_no_list_have_their_figures(one: dict[str, Any]):
    said = explain(None, one["text"])
    assert said.overflow
    assert {"limit": said.limit, "used": said.used, "kind": said.kind, "text": one["text"]} == one, said.provenance


@pytest.mark.rule("OVER-2")
@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (413, None, "suspected"), (429, None, "rate"), (401, None, "auth"), (402, None, "quota"), (529, None, "server"),
        (500, None, "server"), (400, None, "unknown"), (None, None, "unknown"),
        (400, "context_length_exceeded", "overflow"), (400, "ContextLengthExceeded", "overflow"),
        (429, "throttlingException", "rate"), (413, "request_too_large", "bytes"),
        (200, "model_context_window_exceeded", "overflow"), (0, "string_above_max_length", "string_length"),
        (400, "1261", "unknown"), (400, "2013", "unknown"),
        (400, "authentication#model_not_found", "model"), (400, "context_length_exceeded:", "overflow"),
    ],
)  # fmt: skip
def test_where_there_are_no_words_codes_speak_then_the_status(status: int | None, code: str | None, kind: str):
    said = explain(status, b"", code)
    assert (said.kind, said.limit, said.used) == (kind, 0, 0)


@pytest.mark.rule("OVER-2", "OVER-24")
@pytest.mark.parametrize(
    "text",
    [
        "Prompt tokens limit exceeded: 12345 > 8000", "prompt is too long: 208380 tokens > 200000 maximum", "",
        "Rate limit reached: Limit 6000, Requested 21000", "Request Entity Too Large", "max_tokens is too large: 9",
    ],
)  # fmt: skip
def test_where_payment_is_required_no_limit_is_the_models(text: str):
    """A prompt the account cannot pay for is counted in tokens too; a smaller window would be learnt for ever."""
    for body in (text, openai(text), json.dumps({"error": {"message": text, "code": 402}})):
        said = explain(402, body)
        assert (said.kind, said.overflow, said.limit, said.used) == ("quota", False, 0, 0)
    assert explain(None, json.dumps({"error": {"message": text, "code": 402}})).kind == "quota"


ADDRESSES = (
    "https://console.example.com/settings/billing",
    "https://example.com/docs/rate-limit?from=context_length_exceeded#too-many-images",
    "platform.example.com/account/credits",
    "http://localhost:4000/tool_use/cache_control/quota_exceeded",
)


@pytest.mark.rule("OVER-24")
@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("one", PLAIN, ids=ids)
def test_a_word_inside_an_address_decides_nothing(one: dict[str, Any], address: str):
    for text in (
        f"{one['text']} See {address}",
        f"({address}) {one['text']}",
        f"{one['text']} <a href='{address}'>x</a>",
    ):
        holds(one, text)
        holds(one, openai(text))


@pytest.mark.rule("OVER-24")
@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_alone_says_nothing(address: str):
    for text in (address, f"See {address} for more.", openai(f"Something went wrong ({address})")):
        assert explain(None, text).kind == "unknown"


@pytest.mark.rule("OVER-3", "OVER-6")
@pytest.mark.parametrize(
    ("text", "limit", "used"),
    [
        ("context window exceeds limit (2013)", 0, 0),
        ("prompt too long; exceeded max context length by 540451 tokens (ref: 8b0c)", 0, 0),
        ('{"error":{"code":"1261","message":"Prompt exceeds max length"}}', 0, 0),
        ("gpt-4-32768: your input exceeds the context window of this model", 0, 0),
        ("prompt is too long after 3 attempts in 12000 ms", 0, 0),
        ("This model's maximum context length is 99999999999999999999 tokens", 0, 0),
        ("exceeds the context window of 128k tokens", 128_000, 0),
        ("exceeds the 1M token context window", 1_000_000, 0),
        ("maximum context length is 2,00,000 tokens, your prompt has 2,10,000 tokens", 200_000, 210_000),
        ('{"error":{"message":"context size exceeded","n_ctx":"4096","n_prompt_tokens":5000}}', 4_096, 5_000),
        ('{"error":{"message":"context size exceeded","n_ctx":4096,"n_prompt_tokens":50', 4_096, 0),
        ("413 Prompt tokens exceed the limit of 3000", 3_000, 0),
        ("Error: 400 Input tokens exceed the configured limit of 32900 tokens.", 32_900, 0),
        ("516 prompt tokens exceed the limit of 512", 512, 516),
    ],
)  # fmt: skip
def test_only_a_number_that_is_said_to_be_a_limit_is_one(text: str, limit: int, used: int):
    """T38: an error code, an excess, a model's name and a waiting time are no limit."""
    said = explain(400, text)
    assert said.overflow
    assert (said.limit, said.used) == (limit, used), said.provenance


@pytest.mark.rule("OVER-3")
@pytest.mark.parametrize(
    "one",
    [one for one in (*NUMBERED, *VECTORS["figures"]) if not one["text"][:1].isdigit()],
    ids=lambda one: one["text"][:60],
)
def test_a_status_in_front_counts_nothing(one: dict[str, Any]):
    alone, behind = explain(400, one["text"]), explain(None, f"400 {one['text']}")
    assert (behind.limit, behind.used, behind.input) == (alone.limit, alone.used, alone.input), behind.provenance


@pytest.mark.rule("OVER-3")
def test_where_a_figure_was_read_is_said():
    said = explain(
        400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 8202 tokens."
    )
    assert 'limit "This model\'s maximum context length is 8192 tokens"' in said.provenance
    assert 'used "However, your messages resulted in 8202 tokens"' in said.provenance
    assert said.bounds == "combined"
    fields = explain(400, '{"error":{"type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}')
    assert fields.provenance == "limit field n_ctx; used field n_prompt_tokens"
    assert explain(400, "prompt token count of 135099 exceeds the limit of 128000").bounds == "prompt"
    assert explain(400, "prompt is too long: 208380 tokens > 200000 maximum").bounds == "prompt"
    assert explain(400, "too many words").bounds == ""


@pytest.mark.rule("OVER-7")
def test_an_answer_is_no_error_whatever_it_talks_about():
    """What a model or a person wrote is not the provider's word."""
    spoken = "prompt is too long: 208380 tokens > 200000 maximum"
    for body in (
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": spoken}],
            "stop_reason": "end_turn",
        },
        {"choices": [{"message": {"content": spoken}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 7}},
        {"candidates": [{"content": {"parts": [{"text": spoken}]}}]},
    ):
        assert not explain(200, json.dumps(body)).overflow
    echo = {"detail": [{"type": "missing", "msg": "Field required", "input": {"messages": [{"content": spoken}]}}]}
    assert not explain(422, json.dumps(echo)).overflow
    stream = f'data: {{"type":"content_block_delta","delta":{{"type":"text_delta","text":{json.dumps(spoken)}}}}}\n\n'
    assert not explain(200, stream).overflow


known = st.sampled_from([one["text"] for one in ERRORS])
members = st.sampled_from(["error", "message", "code", "type", "raw", "n_ctx", "status", "choices", "x"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | known,
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(members, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def sound(body: bytes | str) -> None:
    said = explain(400, body)
    assert said.overflow == (said.kind in OVERFLOWS)
    assert said.output_driven == (said.kind == "output_driven")
    assert said.limit >= 0
    assert said.used >= 0
    assert said.overflow or not (said.limit or said.used)
    assert bool(said.provenance) == bool(said.limit or said.used)


@pytest.mark.rule("OVER-9")
@given(st.binary(max_size=400) | st.text(max_size=400) | json_values.map(json.dumps))
def test_any_bytes_give_an_answer(body: bytes | str):
    sound(body)


@pytest.mark.rule("OVER-9")
@given(st.sampled_from(ERRORS), st.integers(0, 300), st.integers(0, 300), st.text(max_size=8))
def test_any_piece_of_a_known_error_gives_an_answer(one: dict[str, Any], begin: int, size: int, put: str):
    sound(one["text"][begin : begin + size] + put + one["text"])
    sound(openai(one["text"])[begin : begin + size])


@pytest.mark.rule("OVER-9")
@pytest.mark.parametrize(
    "piece",
    [
        "prompt ", "exceed ", "1", "1,111", "maximum context length is ", '{"', "[{", '{"a":', "[", "\\", "\\u0031",
        "data: {\n", "exceeds the limit of 1 ", "images exceed ", "max_tokens ", "( ", "is of the ", "tokens > ",
        "\u200b", " ", "&amp;", "error: ", "a.", "a-", "a.b/", "http://", "9 tokens ", "9 images ", "tokens limit ",
        "content ", "limit limit ", "daily a ", "x_tokens (", "- 1 > 2 ", "\u8f93\u5165", "\u8d85\u8fc7", "but got 1 ",
        "2026-01-01 ", "2026-", "12:00:", "1234 ", "1234 5 > ", "status 400 ", "status", "body limit ",
        "max_tokens x. ", "at least 1 ", "please wait ", "too long ", "context size ", "available memory ", "a\\n",
        "truncate to 1 ", "prompt 1 tokens ", "tool result exceeds ", "\u6700\u5927\u8f93\u51651",
    ],
)  # fmt: skip
def test_a_long_body_of_one_piece_is_read_in_linear_time(piece: str):
    """A pattern that tries everything again at each place would never come back here."""
    sound(piece * (300_000 // len(piece)))
    sound(json.dumps({"error": {"errors": [{"message": f"{n} {piece * (4_000 // len(piece))}"} for n in range(70)]}}))


@pytest.mark.rule("OVER-7")
@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{"message": {"content": ""}, "finish_reason": "model_context_window_exceeded"}]},
        {"type": "message", "content": [], "stop_reason": "model_context_window_exceeded"},
        {"type": "message_delta", "delta": {"stop_reason": "model_context_window_exceeded"}},
    ],
)
def test_an_overflow_may_come_as_the_reason_an_answer_ended(body: dict[str, Any]):
    """OV-09: the answer that was cut is not taken for a whole one."""
    assert explain(200, json.dumps(body)).kind == "overflow"
    assert explain(200, f"event: x\ndata: {json.dumps(body)}\n\n").kind == "overflow"
    assert not explain(200, json.dumps(body).replace("model_context_window_exceeded", "end_turn")).overflow


@pytest.mark.rule("OVER-8")
@pytest.mark.parametrize(("taken", "driven"), [(7_884, True), (98_304, True), (98_305, False), (131_000, False)])
def test_an_input_that_fits_by_itself_is_not_the_cause(taken: int, driven: bool):
    """OV-18: with an allowance as large as the window every input is too much; condensing it would never end."""
    said = explain(
        400,
        f"This endpoint's maximum context length is 131072 tokens. You requested about {taken + 131072} tokens "
        f"({taken} of text input, 131072 in the output).",
    )
    assert said.overflow
    assert said.output_driven == driven
    assert (said.limit, said.used, said.input, said.output) == (131_072, taken + 131_072, taken, 131_072)
    assert ("output allowance" in said.what_to_do) == driven


@pytest.mark.rule("OVER-3", "OVER-8")
@pytest.mark.parametrize(("asked", "driven"), [(32_000, False), (98_303, False), (98_304, True), (131_072, True)])
def test_what_a_request_had_at_least_is_no_size_of_it(asked: int, driven: bool):
    """A server that stops counting names the first count too many: by it a request of any size would just miss."""
    said = explain(
        400,
        f"This model's maximum context length is 131072 tokens. However, you requested {asked} output tokens and your "
        f"prompt contains at least {131_073 - asked} input tokens, for a total of at least 131073 tokens.",
    )
    assert said.overflow
    assert said.output_driven == driven
    assert (said.limit, said.used, said.input, said.output) == (131_072, 0, -1, asked)


@pytest.mark.rule("OVER-4")
@pytest.mark.parametrize("advice", ["Please wait and", "Retry later.", "Try again in a few moments."])
def test_advice_to_wait_decides_only_where_nothing_else_does(advice: str):
    assert explain(400, f"{advice} Something happened.").kind == "rate"
    assert explain(503, f"{advice} Something happened.").kind == "server"
    assert explain(503, f"{advice} Rate limit reached.").kind == "rate"
    assert explain(400, f"{advice} The tokens of this key are spent for this minute.").kind == "rate"
    for long in ("the prompt is too long", "conversation is too large", "context window exceeded"):
        assert explain(400, f"{advice} {long}: 210000 tokens > 200000 maximum").limit == 200_000

"""Answers read as they go by."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldlog.adapters.proxy.protocols import protocol_for
from foldlog.adapters.proxy.protocols.base import Usage

ANTHROPIC = protocol_for("POST", "/v1/messages?beta=true")
CHAT = protocol_for("POST", "/v1/chat/completions")


def events(*values: object, name: bool = True, end: str = "\n") -> bytes:
    lines = []
    for value in values:
        if name and isinstance(value, dict):
            lines.append(f"event: {value.get('type')}{end}")
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        lines.append(f"data: {text}{end}{end}")
    return "".join(lines).encode()


STREAM = (
    {"type": "message_start", "message": {"id": "msg_1", "model": "claude-x", "content": [], "stop_reason": None,
     "usage": {"input_tokens": 3, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 40,
               "output_tokens": 1}}},
    {"type": "ping"},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "data: {\n\n\"é\""}},
    {"type": "content_block_start", "index": 1,
     "content_block": {"type": "tool_use", "id": "toolu_1", "name": "mcp__ctx__ctx_reduce", "input": {}}},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 77}},
    {"type": "message_stop"},
)  # fmt: skip
HEARD = Usage(3, 900, 40, 77, "msg_1", "claude-x", (("toolu_1", "mcp__ctx__ctx_reduce"),), "tool_use", complete=True)

CHUNKS = (
    {"id": "c1", "model": "gpt", "choices": [{"index": 0, "delta": {"role": "assistant"}}], "usage": None},
    {"id": "c1", "model": "gpt", "choices": [{"index": 0, "delta": {"tool_calls": [
        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "ctx_expand", "arguments": ""}}]}}]},
    {"id": "c1", "model": "gpt", "choices": [{"index": 0, "delta": {"tool_calls": [
        {"index": 0, "function": {"arguments": "{\"tag\": 1}"}}]}}]},
    {"id": "c1", "model": "gpt", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    {"id": "c1", "model": "gpt", "choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 5,
     "prompt_tokens_details": {"cached_tokens": 896}}},
    "[DONE]",
)  # fmt: skip
HEARD_CHAT = Usage(104, 896, None, 5, "c1", "gpt", (("call_1", "ctx_expand"),), "tool_calls", complete=True)


@pytest.mark.rule("PROXY-7")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=40), st.sampled_from(["\n", "\r\n"]))
def test_a_stream_is_read_however_it_is_split(sizes, end):
    for protocol, answer, heard in ((ANTHROPIC, STREAM, HEARD), (CHAT, CHUNKS, HEARD_CHAT)):
        raw, meter, at, turn = events(*answer, end=end), protocol.meter(), 0, 0
        while at < len(raw):
            size = sizes[turn % len(sizes)]
            meter.feed(raw[at : at + size])
            at, turn = at + size, turn + 1
        assert meter.result() == heard
        assert meter.result() == heard


@pytest.mark.rule("PROXY-7")
def test_a_stream_that_breaks_tells_what_it_told_and_is_not_complete():
    meter = ANTHROPIC.meter()
    meter.feed(events(*STREAM[:3])[:-9])
    assert meter.result() == Usage(3, 900, 40, 1, "msg_1", "claude-x")
    assert ANTHROPIC.meter().result() == Usage()


@pytest.mark.rule("PROXY-7")
def test_one_json_answer():
    meter = ANTHROPIC.meter()
    meter.feed(
        b'\n{"id":"msg_1","model":"claude-x","stop_reason":"tool_use","content":[{"type":"tool_use","id":"toolu_1",'
    )
    assert meter.result() == Usage()
    meter.feed(b'"name":"mcp__ctx__ctx_reduce","input":{}}],"usage":{"input_tokens":3,"cache_read_input_tokens":900,')
    meter.feed(b'"cache_creation_input_tokens":40,"output_tokens":77}}')
    assert meter.result() == HEARD
    meter = CHAT.meter()
    meter.feed(
        b'{"id":"c1","model":"gpt","choices":[{"message":{"tool_calls":[{"id":"call_1","function":{"name":"ctx_expand"}}]},'
        b'"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1000,"completion_tokens":5,'
        b'"prompt_tokens_details":{"cached_tokens":896}}}'
    )
    assert meter.result() == HEARD_CHAT


@pytest.mark.rule("PROXY-7")
def test_errors_whole_and_inside_a_stream():
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    raw = json.dumps(error, separators=(",", ":")).encode()
    for said in (raw, events(*STREAM[:3], error)):
        meter = ANTHROPIC.meter()
        meter.feed(said)
        assert meter.result().error == raw
        assert not meter.result().complete
    meter = CHAT.meter()
    meter.feed(events(CHUNKS[0], {"error": {"message": "too long", "code": "context_length_exceeded"}}))
    assert b"too long" in meter.result().error


@pytest.mark.rule("PROXY-7")
@pytest.mark.parametrize("raw", [b"", b"<html>", b"\x1f\x8b\x00\xff", b"data: {\n", b"data: 5\n", b"[1]",
    b'{"usage":[]}',
    b'data: {"type":"message_start","message":5}\n', b'{"content":[5],"usage":{"input_tokens":true}}',
    b'data: {"choices":[{"delta":{"tool_calls":[{"id":7}]}}],"usage":{"prompt_tokens":"x"}}\n'])  # fmt: skip
def test_what_is_no_answer_tells_nothing(raw):
    for protocol in (ANTHROPIC, CHAT):
        meter = protocol.meter()
        meter.feed(raw)
        told = meter.result()
        assert (told.input, told.cache_read, told.output, told.calls, told.stop) == (None, None, None, (), "")


@pytest.mark.rule("PROXY-8")
def test_refusals_are_in_the_providers_shape():
    status, headers, body = ANTHROPIC.refusal("TOO_FULL", "the window is full", 400)
    assert (status, headers["x-should-retry"]) == (400, "false")
    assert json.loads(body) == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "foldlog: the window is full [TOO_FULL]"},
    }
    assert "x-should-retry" not in ANTHROPIC.refusal("STORAGE_BUSY", "busy", 503)[1]
    assert json.loads(ANTHROPIC.refusal("X", "busy", 529)[2])["error"]["type"] == "overloaded_error"
    error = json.loads(CHAT.refusal("TOO_FULL", "the window is full", 400)[2])["error"]
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "TOO_FULL", None)

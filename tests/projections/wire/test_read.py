"""Reading: what becomes of odd messages, of media, of ids and times."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from foldlog.domain import transcript as tr
from foldlog.domain.errors import MessageError, OptionError, UnknownTag
from foldlog.projections.wire import v1

ANTHROPIC, CHAT, PI = v1.CODECS[:3]


def parts(codec: str, value: Any) -> tuple[tr.Part, ...]:
    return v1.read(codec, v1.encode(value), len).message.parts


def block(**members: Any) -> dict[str, Any]:
    return {"role": "user", "content": [members]}


@pytest.mark.parametrize(
    ("codec", "value", "where"),
    [
        (ANTHROPIC, [], ""),
        (ANTHROPIC, {"content": "x"}, ".role"),
        (ANTHROPIC, {"role": "exit", "content": "x"}, ".role"),
        (ANTHROPIC, {"role": "tool", "content": "x"}, ".role"),
        (ANTHROPIC, {"role": "user"}, ".content"),
        (ANTHROPIC, {"role": "user", "content": None}, ".content"),
        (ANTHROPIC, {"role": "user", "content": {"type": "text"}}, ".content"),
        (ANTHROPIC, {"role": "user", "content": ["x"]}, ".content[0]"),
        (ANTHROPIC, block(text="x"), ".content[0].type"),
        (ANTHROPIC, block(type=7), ".content[0].type"),
        (ANTHROPIC, block(type="text"), ".content[0].text"),
        (ANTHROPIC, block(type="tool_use", name="n", input={}), ".content[0].id"),
        (ANTHROPIC, block(type="tool_use", id="", name="n", input={}), ".content[0].id"),
        (ANTHROPIC, block(type="tool_use", id="\ud800", name="n", input={}), ".content[0].id"),
        (ANTHROPIC, block(type="tool_use", id="t", input={}), ".content[0].name"),
        (ANTHROPIC, block(type="tool_result", content="x"), ".content[0].tool_use_id"),
        (ANTHROPIC, block(type="tool_result", tool_use_id="t", content=7), ".content[0].content"),
        (ANTHROPIC, block(type="tool_result", tool_use_id="t", content=["x"]), ".content[0].content[0]"),
        (ANTHROPIC, block(type="thinking", thinking=7), ".content[0].thinking"),
        (CHAT, {"role": "tool", "content": "x"}, ".tool_call_id"),
        (CHAT, {"role": "assistant", "content": None, "tool_calls": {}}, ".tool_calls"),
        (CHAT, {"role": "assistant", "tool_calls": [{"function": {"name": "n"}}]}, ".tool_calls[0].id"),
        (CHAT, {"role": "assistant", "tool_calls": [{"id": "c"}]}, ".tool_calls[0]"),
        (CHAT, {"role": "function", "content": "x"}, ".role"),
        (PI, {"role": "toolResult", "content": []}, ".toolCallId"),
        (PI, {"role": "developer", "content": 7}, ".content"),
    ],
)
def test_what_cannot_be_read_is_named(codec: str, value: Any, where: str) -> None:
    with pytest.raises(MessageError) as caught:
        v1.read(codec, v1.encode(value), len, "messages[3]")
    assert caught.value.where == f"messages[3]{where}"


def test_unknown_codec() -> None:
    with pytest.raises(OptionError, match="anthropic"):
        v1.read("gemini", b'{"role":"user","content":"x"}', len)


def test_no_such_part() -> None:
    for p in (-1, 1):
        with pytest.raises(UnknownTag):
            v1.original(ANTHROPIC, b'{"role":"user","content":"x"}', p)


def test_empty_messages_have_no_parts_but_one_block() -> None:
    for codec, value in (
        (ANTHROPIC, {"role": "assistant", "content": []}),
        (CHAT, {"role": "assistant", "content": None}),
        (PI, {"role": "assistant", "content": []}),
    ):
        assert parts(codec, value) == ()
        (only,) = v1.blocks(codec, v1.encode(value))
        assert b'{"type":"empty"}' in only.form


def png(width: int, height: int) -> str:
    return base64.b64encode(
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x06\0\0\0"
    ).decode()


JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc2\x00\x11\x08\x01\x2c\x02\x58\x03"
GIF = b"GIF89a\x58\x02\x2c\x01\0"
WEBP = {
    "VP8X": b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x57\x02\0\x2b\x01\0",
    "VP8L": b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + (599 | 299 << 14).to_bytes(4, "little"),
    "VP8 ": b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x58\x02\x2c\x01",
}


@pytest.mark.parametrize(
    ("data", "tokens"),
    [
        (png(800, 600), 640),
        (png(1, 1), 1),
        (png(751, 1), 2),
        (png(9000, 9000), 4500),
        (png(0, 5), 1200),
        ("%%%", 1200),
        ("", 1200),
        (base64.b64encode(b"hello").decode(), 1200),
        *((base64.b64encode(d).decode(), 240) for d in (JPEG, GIF, *WEBP.values())),
    ],
)
def test_picture_tokens(data: str, tokens: int) -> None:
    """600 x 300 pixels are 240 tokens: ceil(w * h / 750), 1 to 4,500, else 1,200 (transform.md 1.5)."""
    source = {"type": "base64", "media_type": "image/png", "data": data}
    (a,) = parts(ANTHROPIC, block(type="image", source=source))
    (p,) = parts(PI, block(type="image", data=data, mimeType="image/png"))
    (o,) = parts(CHAT, block(type="image_url", image_url={"url": f"data:image/png;base64,{data}"}))
    (r,) = parts(ANTHROPIC, block(type="tool_result", tool_use_id="t", content=[{"type": "image", "source": source}]))
    assert (a.tokens, p.tokens, o.tokens, r.tokens) == (tokens,) * 4
    assert isinstance(a, tr.Media)
    assert isinstance(r, tr.Result)
    assert r.media == 1


def test_media_elsewhere() -> None:
    (url,) = parts(CHAT, block(type="image_url", image_url={"url": "https://x.example/a.png"}))
    (text,) = parts(
        ANTHROPIC, block(type="document", source={"type": "text", "media_type": "text/plain", "data": "x" * 50})
    )
    assert (url.tokens, text.tokens) == (1200, 50)


def test_attachments_are_the_inline_media() -> None:
    """Spans of base64 of at least 1 KiB, in media only, also inside a tool result."""
    data, long_text = "QUJD" * 300, "a" * 5000
    source = {"type": "base64", "media_type": "image/png", "data": data}
    image = {"type": "image", "source": source}
    value = {
        "role": "user",
        "content": [
            {"type": "text", "text": long_text},
            image,
            {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": long_text}, image]},
            {"type": "image", "source": {**source, "data": "QUJD" * 200}},
        ],
    }
    raw = v1.encode(value)
    spans = v1.read(ANTHROPIC, raw, len).attachments
    assert [raw[b:e] for b, e in spans] == [data.encode()] * 2
    assert v1.read(ANTHROPIC, v1.encode({"role": "user", "content": long_text}), len).attachments == ()


@pytest.mark.parametrize(
    ("codec", "value", "host_id", "stamp"),
    [
        (PI, {"role": "user", "content": "x", "timestamp": 1765233665292}, "", 1765233665292),
        (PI, {"role": "user", "content": "x", "timestamp": 1.5}, "", 1),
        (PI, {"role": "user", "content": "x", "timestamp": "2025"}, "", 0),
        (PI, {"role": "user", "content": "x", "timestamp": float("nan")}, "", 0),
        (PI, {"role": "user", "content": "x", "timestamp": True, "id": "e1"}, "e1", 0),
        (ANTHROPIC, {"role": "user", "content": "x", "timestamp": 5, "id": 7}, "", 0),
        (ANTHROPIC, {"role": "user", "content": "x", "id": "\ud800"}, "", 0),
    ],
)
def test_ids_and_times(codec: str, value: Any, host_id: str, stamp: int) -> None:
    message = v1.read(codec, v1.encode(value), len).message
    assert (message.host_id, message.stamp) == (host_id, stamp)


def test_parts_of_an_openai_assistant_are_in_order() -> None:
    function = {"name": "f", "arguments": '{"a":"é","b":["xy",1]}'}
    value = {
        "role": "assistant",
        "tool_calls": [{"id": "c", "type": "function", "function": function}],
        "refusal": "no",
        "content": "text",
        "reasoning_content": "hm",
    }
    think, text, other, call = parts(CHAT, value)
    assert isinstance(think, tr.Thinking)
    assert isinstance(text, tr.Text)
    assert isinstance(other, tr.Other)
    assert isinstance(call, tr.Call)
    assert (call.id, call.name, call.strings) == ("c", "f", 4)
    raw = v1.encode(value)
    assert [v1.part_text(CHAT, raw, p) for p in (0, 1, 3)] == ["hm", "text", '{"a":"é","b":["xy",1]}']
    assert v1.original(CHAT, raw, 0) == b'"hm"'
    assert v1.original(CHAT, raw, 3).startswith(b'{"id":"c"')
    broken = {"id": "c", "function": {"name": "f", "arguments": "{é"}}
    (call,) = parts(CHAT, {"role": "assistant", "content": None, "tool_calls": [broken]})
    assert isinstance(call, tr.Call)
    assert call.strings == 3


def test_tokens_are_counted_without_lone_surrogates() -> None:
    seen: list[str] = []

    def count(text: str) -> int:
        text.encode()
        seen.append(text)
        return 1

    v1.read(ANTHROPIC, b'{"role":"user","content":"a\\ud800b"}', count)
    assert len(seen) == 1
    assert seen[0][0] == "a"
    assert seen[0][-1] == "b"


@pytest.mark.parametrize(("text", "blank"), [("", True), (" \n\t", True), ("x", False), ("\u200b", False)])
def test_blank_texts(text: str, blank: bool) -> None:
    (part,) = parts(ANTHROPIC, {"role": "user", "content": text})
    assert isinstance(part, tr.Text)
    assert part.blank is blank


def test_roles_of_pi_and_of_what_grew_from_it() -> None:
    """VIEW-5 and VIEW-15: text of any speaker has a number; a message of an unknown role is kept as it is."""
    for role in ("user", "custom", "developer", "hookMessage"):
        [part] = v1.read(PI, v1.encode({"role": role, "content": [{"type": "text", "text": "x"}]}), len).message.parts
        assert isinstance(part, tr.Text)
    for message in ({"role": "fileMention", "files": []}, {"role": "pythonExecution", "code": "1"}, {"role": "theirs"}):
        [part] = v1.read(PI, v1.encode(message), len).message.parts
        assert isinstance(part, tr.Other)

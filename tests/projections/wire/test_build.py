"""What foldlog adds on the wire: head, inserts, guidance, marks; and the digests of system, tools and request."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest

from foldlog.domain.edits import Insert, MessageSlots
from foldlog.domain.errors import MessageError
from foldlog.projections.wire import v1

ANTHROPIC, CHAT, PI = v1.CODECS[:3]
MARK = {"type": "ephemeral"}


@pytest.mark.parametrize("codec", v1.CODECS)
def test_head_is_two_user_messages(codec: str) -> None:
    """VIEW-18."""
    for raw, text in zip(v1.head_messages(codec, 'a "0"', "b\n1"), ('a "0"', "b\n1"), strict=True):
        read = v1.read(codec, raw, len)
        assert read.message.role == "user"
        assert v1.part_text(codec, raw, 0) == text
        assert len(read.message.parts) == 1


@pytest.mark.parametrize("codec", v1.CODECS[:3])
def test_an_arc_is_a_call_and_its_result(codec: str) -> None:
    """VIEW-18."""
    arc = b'{"id":"todo_1","input":{"items":["a"]},"name":"todowrite","output":"done"}'
    messages = v1.insert_messages(codec, Insert(3, 0, "x", "arc", b""), arc)
    call, result = (v1.read(codec, raw, len).message.parts for raw in messages)
    assert (call[0].id, call[0].name, result[0].id) == ("todo_1", "todowrite", "todo_1")  # type: ignore[union-attr]
    assert json.loads(v1.part_text(codec, messages[0], 0)) == {"items": ["a"]}
    assert v1.part_text(codec, messages[1], 0) == "done"


@pytest.mark.parametrize("codec", v1.CODECS)
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_text_insert_is_one_message(codec: str, role: Any) -> None:
    """VIEW-18."""
    (raw,) = v1.insert_messages(codec, Insert(3, 0, "x", "text", b"", role), "ü".encode())
    assert v1.read(codec, raw, len).message.role == role
    assert v1.part_text(codec, raw, 0) == "ü"


def test_half_an_arc_is_refused() -> None:
    """VIEW-18."""
    with pytest.raises(MessageError):
        v1.insert_messages(ANTHROPIC, Insert(3, 0, "x", "arc", b""), b'{"id":"x","name":"n","input":{}}')


@pytest.mark.parametrize(
    ("system", "wanted"),
    [
        (b"", b'"G"'),
        (b'""', b'"G"'),
        (b"null", b'"G"'),
        (b"[]", b'[{"type":"text","text":"G"}]'),
        (b' "be \\u00e9" ', b' "be \\u00e9\\n\\nG" '),
        (b'[ {"type":"text","text":"x"} ]', b'[ {"type":"text","text":"x"},{"type":"text","text":"G"} ]'),
    ],
)
def test_guidance_stands_at_the_end(system: bytes, wanted: bytes) -> None:
    """VIEW-19."""
    assert v1.with_guidance(ANTHROPIC, system, "G") == wanted
    assert v1.with_guidance(ANTHROPIC, system, "") is system


def test_guidance_of_a_chat() -> None:
    """VIEW-19."""
    raws = [b'{"role":"system","content":"a"}', b'{"role":"developer","content":[{"type":"text","text":"b"}]}']
    rest = [b'{"role":"user","content":"hi"}', b'{"role":"system","content":"late"}']
    assert v1.split_system(CHAT, [*raws, *rest]) == 2
    assert v1.split_system(CHAT, rest) == v1.split_system(ANTHROPIC, raws) == 0
    out = v1.system_messages(CHAT, raws, "G")
    assert out[0] is raws[0]
    assert out[1] == b'{"role":"developer","content":[{"type":"text","text":"b"},{"type":"text","text":"G"}]}'
    assert v1.system_messages(CHAT, raws[:1], "G") == (b'{"role":"system","content":"a\\n\\nG"}',)
    assert v1.system_messages(CHAT, [], "G") == (b'{"role":"system","content":"G"}',)
    assert v1.system_messages(CHAT, raws, "") == tuple(raws)
    assert v1.system_messages(CHAT, [], "") == ()
    whole = b"[" + b",".join(raws) + b"]"
    assert v1.with_guidance(CHAT, whole, "G") == b"[" + b",".join(out) + b"]"
    roles = [json.loads(b.form)["role"] for b in v1.system_blocks(CHAT, whole)]
    assert roles == ["system", "developer"]


BILLING = {"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=0a1b2;"}


def test_system_hash_ignores_marks_and_billing() -> None:
    """JSON-8, JSON-9, JSON-13."""
    text = {"type": "text", "text": "You are"}
    base = v1.system_hash(ANTHROPIC, v1.encode([text]))
    assert base == v1.system_hash(ANTHROPIC, v1.encode("You are"))
    assert base == v1.system_hash(ANTHROPIC, v1.encode([BILLING, {**text, "cache_control": MARK}]))
    assert base != v1.system_hash(ANTHROPIC, v1.encode([text, text]))
    assert base != v1.system_hash(ANTHROPIC, v1.encode("You  are"))
    assert v1.system_hash(ANTHROPIC, b"") == v1.system_hash(ANTHROPIC, b'""') == v1.system_hash(ANTHROPIC, b"[]")
    changed = {**BILLING, "text": BILLING["text"] + "9"}
    assert v1.system_blocks(ANTHROPIC, v1.encode([BILLING, text])) == v1.system_blocks(
        ANTHROPIC, v1.encode([changed, text])
    )


@pytest.mark.parametrize("raw", [b"7", b'["x"]', b"{}"])
def test_a_system_text_of_another_kind_is_refused(raw: bytes) -> None:
    with pytest.raises(MessageError):
        v1.system_hash(ANTHROPIC, raw)
    with pytest.raises(MessageError):
        v1.tools_blocks(ANTHROPIC, raw)


def test_tool_hash_is_over_names_and_descriptions() -> None:
    """JSON-13."""
    one = {"name": "a", "description": "does a", "input_schema": {"type": "object"}}
    two = {"name": "b", "description": "does b"}
    base = v1.tools_names_hash(ANTHROPIC, v1.encode([one, two]))
    assert base == v1.tools_names_hash(ANTHROPIC, v1.encode([two, {**one, "input_schema": {}, "cache_control": MARK}]))
    assert base != v1.tools_names_hash(ANTHROPIC, v1.encode([one]))
    assert base != v1.tools_names_hash(ANTHROPIC, v1.encode([{**one, "description": "does A"}, two]))
    assert base == v1.tools_names_hash(
        CHAT, v1.encode([{"type": "function", "function": one}, {"type": "function", "function": two}])
    )
    assert v1.tool_names(ANTHROPIC, v1.encode([two, one])) == ("b", "a")
    assert v1.tool_names(ANTHROPIC, b"") == ()
    marked, plain = (v1.tools_blocks(ANTHROPIC, v1.encode([t])) for t in ({**one, "cache_control": MARK}, one))
    assert marked == plain
    assert v1.tools_blocks(ANTHROPIC, v1.encode([{**one, "input_schema": {}}])) != plain


def test_block_digest_is_over_canonical_json_with_the_role() -> None:
    """JSON-11."""
    (block,) = v1.blocks(ANTHROPIC, b'{"role":"user","content":"hi"}')
    assert block.form == b'{"block":{"text":"hi","type":"text"},"role":"user"}'
    assert block.digest == sha256(block.form).digest()
    assert block.size == len(b'{"text":"hi","type":"text"}')
    two = b'[{"type":"text","text":"a"},{"type":"text","text":"b"}]'
    named = v1.blocks(CHAT, b'{"role":"user","content":' + two + b',"name":"x"}')
    assert [b"members" in b.form for b in named] == [True, False]
    result = b'{"role":"toolResult","toolCallId":"c","toolName":"n","content":[],"isError":false,"details":1}'
    same, other = (v1.blocks(PI, result.replace(a, b)) for a, b in ((b'"details":1', b'"details":2'), (b'"c"', b'"d"')))
    assert v1.blocks(PI, result) == same != other


def test_chain() -> None:
    """JSON-12."""
    start = v1.GENESIS(ANTHROPIC)
    assert start == sha256(b"foldlog request v1 anthropic").digest() != v1.GENESIS(PI)
    blocks = v1.blocks(ANTHROPIC, b'{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}')
    whole = v1.chain(start, blocks)
    assert whole == v1.chain(v1.chain(start, blocks[:1]), blocks[1:])
    assert whole == sha256(sha256(start + blocks[0].digest).digest() + blocks[1].digest).digest()
    assert whole != v1.chain(start, reversed(blocks))
    assert v1.chain(start, ()) == start


def conversation() -> list[dict[str, Any]]:
    head = [json.loads(m) for m in v1.head_messages(ANTHROPIC, "m0", "m1")]
    return [
        *head,
        {"role": "user", "content": "do"},
        {"role": "assistant", "content": [{"type": "text", "text": "x"}, {"type": "thinking", "thinking": "t"}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"}]},
    ]


def test_marks_are_at_most_four_and_where_mark_indexes_says() -> None:
    """VIEW-20."""
    system = [{"type": "text", "text": "a", "cache_control": MARK}, {"type": "text", "text": "g"}]
    messages = conversation()
    groups = [v1.blocks(ANTHROPIC, v1.encode(m)) for m in messages]
    v1.marks(ANTHROPIC, system, messages, 2, "1h")
    flat = system + [b for m in messages for b in (m["content"] if isinstance(m["content"], list) else [{}])]
    marked = [i for i, b in enumerate(flat) if "cache_control" in b]
    assert marked == list(v1.mark_indexes(ANTHROPIC, 0, 2, groups, 2)) == [1, 2, 3, 5]
    assert flat[1]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert v1.mark_indexes(ANTHROPIC, 3, 2, groups, 2) == (4, 5, 6, 8)


def test_marks_on_a_string_and_without_a_head() -> None:
    """VIEW-20."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "hi"}, {"role": "user", "content": " "}]
    v1.marks(ANTHROPIC, "system", messages, 0)
    assert messages[0]["content"] == [{"type": "text", "text": "hi", "cache_control": MARK}]
    assert messages[1]["content"] == " "


@pytest.mark.parametrize("codec", [CHAT, PI])
def test_other_codecs_have_no_marks(codec: str) -> None:
    """VIEW-20."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
    v1.marks(codec, None, messages, 0)
    assert messages == [{"role": "user", "content": "hi"}]
    assert v1.mark_indexes(codec, 0, 1, [v1.blocks(codec, v1.encode(messages[0]))], 0) == ()


def test_marks_of_lists_are_taken_off() -> None:
    """VIEW-15."""
    second = b'{"name":"b","x":{"cache_control":1},"cache_control":null}'
    raw = b'[ {"cache_control":{"type":"ephemeral"}, "name":"a"} , ' + second + b"]"
    assert v1.unmarked(raw) == b'[ {"name":"a"} , {"name":"b","x":{"cache_control":1}}]'
    assert v1.unmarked(b"") == b""
    assert v1.unmarked(b'"cache_control"') == b'"cache_control"'


@pytest.mark.parametrize(("time", "kept"), [({"timestamp": 5}, 5), ({}, 0)])
def test_a_pi_message_of_another_kind_with_our_text_has_a_time(time: dict[str, int], kept: int) -> None:
    """VIEW-13: Pi's own messages all have one, whatever the host left out."""
    raw = v1.encode({"role": "bashExecution", "command": "ls", "output": "a", **time})
    shell = v1.render(PI, raw, MessageSlots(shape="shell"), lambda _: b"[dropped]")
    assert shell is not None
    assert json.loads(shell) == {"role": "user", "content": [{"type": "text", "text": "[dropped]"}], "timestamp": kept}

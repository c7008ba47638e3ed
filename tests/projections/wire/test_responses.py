"""Items of the Responses API: which part is what, what identifies it, and where foldlog's own words stand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foldlog.domain import transcript as tr
from foldlog.domain.edits import MessageSlots, PartSlots
from foldlog.domain.errors import MessageError
from foldlog.projections.wire import v1

CODEC = "openai-responses"
PLAIN = MessageSlots()


def read(value: Any) -> tr.Message:
    return v1.read(CODEC, v1.encode(value), len).message


def one(value: Any) -> tr.Part:
    (part,) = read(value).parts
    return part


def no_text(_: bytes) -> bytes:
    raise AssertionError("no chunk was to be read")


CALL = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path": "äb"}'}
SEALED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "A" * 160}


@pytest.mark.parametrize(
    ("value", "role", "kind"),
    [
        ({"role": "user", "content": "x"}, "user", tr.Text),
        ({"type": "message", "role": "developer", "content": "x"}, "system", tr.Text),
        ({"role": "assistant", "content": [{"type": "refusal", "refusal": "x"}]}, "assistant", tr.Other),
        ({"type": "message", "role": "critic", "content": "x"}, "other", tr.Other),
        (SEALED, "assistant", tr.Thinking),
        (CALL, "assistant", tr.Call),
        ({"type": "custom_tool_call", "call_id": "c", "name": "n", "input": "free"}, "assistant", tr.Call),
        ({"type": "local_shell_call", "id": "sh_1", "action": {"command": ["ls"]}}, "assistant", tr.Call),
        ({"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}, "assistant", tr.Call),
        ({"type": "apply_patch_call", "call_id": "c", "operation": {"diff": "x"}}, "assistant", tr.Call),
        ({"type": "computer_call", "call_id": "c", "action": {"type": "click"}}, "assistant", tr.Call),
        ({"type": "tool_search_call", "call_id": "c", "arguments": {"query": "x"}}, "assistant", tr.Call),
        ({"type": "tool_search_call", "call_id": None, "arguments": {"query": "x"}}, "assistant", tr.Other),
        ({"type": "mcp_approval_request", "id": "m1", "name": "n", "arguments": "{}"}, "assistant", tr.Call),
        ({"type": "mcp_call", "id": "m2", "name": "n", "arguments": "{}", "output": "x"}, "assistant", tr.Other),
        ({"type": "web_search_call", "id": "ws_1", "action": {}}, "assistant", tr.Other),
        ({"type": "file_search_call", "id": "fs_1", "queries": []}, "assistant", tr.Other),
        ({"type": "code_interpreter_call", "id": "ci_1", "code": "1"}, "assistant", tr.Other),
        ({"type": "image_generation_call", "id": "ig_1", "result": "AAAA"}, "assistant", tr.Other),
        ({"type": "function_call_output", "call_id": "c1", "output": "x"}, "tool", tr.Result),
        ({"type": "custom_tool_call_output", "call_id": "c", "output": []}, "tool", tr.Result),
        ({"type": "local_shell_call_output", "id": "sh_1", "output": "{}"}, "tool", tr.Result),
        ({"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "a", "stderr": ""}]}, "tool", tr.Result),
        ({"type": "apply_patch_call_output", "call_id": "c", "status": "completed"}, "tool", tr.Result),
        ({"type": "computer_call_output", "call_id": "c", "output": {"type": "screen"}}, "tool", tr.Result),
        ({"type": "tool_search_output", "call_id": "c", "tools": [{"type": "function"}]}, "tool", tr.Result),
        ({"type": "mcp_approval_response", "approval_request_id": "m1", "approve": True}, "tool", tr.Result),
        ({"type": "compaction", "id": "cmp", "encrypted_content": "A" * 160}, "other", tr.Other),
        ({"id": "msg_9"}, "other", tr.Other),
        ({"type": "item_reference", "id": "msg_9"}, "other", tr.Other),
        ({"type": "compaction_trigger"}, "other", tr.Other),
        ({"type": "of_a_later_year", "call_id": 7, "output": 8}, "other", tr.Other),
    ],
)  # fmt: skip
def test_every_item_is_one_message(value: Any, role: str, kind: type) -> None:
    """ITEM-3: and without an edit it is sent as it came; what is unknown is never edited (VIEW-15)."""
    raw = v1.encode(value)
    message = v1.read(CODEC, raw, len).message
    assert (message.role, type(message.parts[0])) == (role, kind)
    assert v1.render(CODEC, raw, PLAIN, no_text) is raw
    assert v1.original(CODEC, raw, 0) in raw
    v1.part_text(CODEC, raw, 0)
    assert len(v1.blocks(CODEC, raw)) == 1
    if kind is tr.Other and role != "assistant":
        edited = v1.render(CODEC, raw, MessageSlots(parts=(PartSlots(tag=3, body="placeholder"),)), no_text)
        assert edited == raw


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ([], ""),
        ({"content": "x"}, ".type"),
        ({"type": 7}, ".type"),
        ({"type": "message", "content": "x"}, ".role"),
        ({"role": "user", "content": None}, ".content"),
        ({"role": "user", "content": [{"type": "input_text"}]}, ".content[0].text"),
        ({"type": "reasoning", "summary": 5}, ".summary"),
        ({"type": "reasoning", "summary": [{"text": 5}]}, ".summary"),
        ({"type": "function_call", "name": "n"}, ".call_id"),
        ({"type": "function_call", "call_id": "c"}, ".name"),
        ({"type": "function_call_output", "output": "x"}, ".call_id"),
        ({"type": "function_call_output", "call_id": "c", "output": 7}, ".output"),
        ({"type": "function_call_output", "call_id": "c", "output": ["x"]}, ".output[0]"),
        ({"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text"}]}, ".output[0].text"),
    ],
)
def test_what_cannot_be_read_is_named(value: Any, where: str) -> None:
    with pytest.raises(MessageError) as caught:
        v1.read(CODEC, v1.encode(value), len, "messages[3]")
    assert caught.value.where == f"messages[3]{where}"


def test_what_a_call_and_its_output_weigh() -> None:
    assert one(CALL) == tr.Call(len('read {"path": "äb"}'), 15, "c1", "read", 3)
    custom = {"type": "custom_tool_call", "call_id": "c", "name": "n", "input": "{free"}
    assert one(custom) == tr.Call(len("n {free"), 5, "c", "n", 5)
    output = {"type": "function_call_output", "call_id": "c1"}
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    listed = one({**output, "output": [{"type": "input_text", "text": "ab"}, picture]})
    assert isinstance(listed, tr.Result)
    assert (listed.tokens, listed.media, listed.id) == (2 + 1200, 1, "c1")
    # what is encrypted has no words to count, and is no text to a tokenizer
    assert one(SEALED) == tr.Thinking(30, 160, True, True)
    told = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    assert one(told) == tr.Thinking(2, 2, False, False)
    assert one({"type": "compaction", "encrypted_content": "A" * 160}).tokens == 30
    assert one({"type": "image_generation_call", "id": "i", "result": "A" * 4000}).tokens == 1200


def ident(value: Any) -> bytes:
    return read(value).ident


def test_ids_states_and_forms_are_no_revision() -> None:
    """ITEM-4: a host that sends its items again without their ids has not changed them."""
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]}
    base = ident(said)
    assert base == ident({**said, "id": "msg_1", "status": "completed"})
    assert base == ident({"role": "assistant", "content": "x"})
    assert base == ident({**said, "content": [{"type": "output_text", "text": "x", "annotations": [], "logprobs": []}]})
    assert base != ident({**said, "phase": "commentary"})
    assert base != ident({**said, "role": "user"})
    noted = {"type": "output_text", "text": "x", "annotations": [{"type": "url_citation"}]}
    assert base != ident({**said, "content": [noted]})
    assert read({**said, "id": "msg_1"}).host_id == ""
    assert ident(CALL) == ident({**CALL, "id": "fc_1", "status": "completed"})
    assert ident(CALL) != ident({**CALL, "call_id": "c2"})
    assert ident(SEALED) == ident({**SEALED, "id": "rs_2", "content": None})
    bare = {"type": "reasoning", "id": "rs_1", "summary": []}
    assert ident(bare) != ident({**bare, "id": "rs_2"})  # the provider's copy stands behind the id
    assert ident({"type": "item_reference", "id": "a"}) != ident({"type": "item_reference", "id": "b"})
    asked = {"type": "mcp_approval_request", "id": "a", "server_label": "s", "name": "n", "arguments": "{}"}
    shell = {"type": "local_shell_call", "id": "a", "action": {"type": "exec", "command": ["ls"], "env": {}}}
    for item in (asked, shell):
        assert ident(item) != ident({**item, "id": "b"})  # it pairs the item with what answers it
    patched = {"type": "apply_patch_call_output", "call_id": "c", "status": "completed"}
    assert ident(patched) != ident({**patched, "status": "failed"})
    output = {"type": "function_call_output", "call_id": "c", "output": "x"}
    assert ident(output) == ident({**output, "id": "fco_1", "output": [{"type": "input_text", "text": "x"}]})


def test_a_block_of_our_own_is_of_the_role_s_kind() -> None:
    """VIEW-4, ITEM-2."""
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    raw = v1.encode({"role": "user", "content": [image]})
    out = v1.render(CODEC, raw, MessageSlots(parts=(PartSlots(tag=3),)), no_text)
    assert out is not None
    assert json.loads(out)["content"] == [{"type": "input_text", "text": "§3§"}, image]
    m0, _ = v1.head_messages(CODEC, "a", "b")
    assert json.loads(m0) == {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]}


DEVELOPER = b'{"type":"message","role":"developer","content":[{"type":"input_text","text":"d"}]}'
TOLD = b'{"type":"input_text","text":"G"}'


def test_guidance_stands_behind_what_leads() -> None:
    """VIEW-19, ITEM-1: in the instructions, or where items lead the conversation, at the end of the last of them."""
    late = [b'{"role":"user","content":"hi"}', DEVELOPER]
    assert v1.split_system(CODEC, [DEVELOPER, *late]) == 1
    assert v1.region(CODEC, b'"be brief"') == (b'"be brief"', ())
    assert v1.with_guidance(CODEC, b'"be brief"', "G") == b'"be brief\\n\\nG"'
    assert v1.region(CODEC, b"") == (b"", ())
    assert v1.region(CODEC, b"[" + DEVELOPER + b"]") == (b"", (DEVELOPER,))
    assert v1.region(CODEC, b'["i",' + DEVELOPER + b"]") == (b'"i"', (DEVELOPER,))
    (out,) = v1.system_messages(CODEC, (DEVELOPER,), "G")
    assert out == DEVELOPER[:-2] + b"," + TOLD + b"]}"
    assert v1.system_messages(CODEC, (), "G") == ()
    with_ids = DEVELOPER[:-1] + b',"id":"msg_1"}'
    hashes = {v1.system_hash(CODEC, b'["i",' + item + b"]") for item in (DEVELOPER, with_ids)}
    assert len(hashes) == 1
    assert v1.system_hash(CODEC, b'["j",' + DEVELOPER + b"]") not in hashes


def test_tools_are_flat_named_inside_a_namespace_or_the_provider_s() -> None:
    """JSON-13: a tool the provider runs has no name, but its coming and going counts."""
    flat = {"type": "function", "name": "a", "description": "does a", "parameters": {}}
    space = {"type": "namespace", "name": "mcp__x", "tools": [{"type": "function", "name": "ctx_reduce"}]}
    hosted = {"type": "web_search", "external_web_access": True}
    raw = v1.encode([flat, space, hosted])
    assert v1.tool_names(CODEC, raw) == ("a", "ctx_reduce")
    assert len(v1.tools_blocks(CODEC, raw)) == 3
    base = v1.tools_names_hash(CODEC, raw)
    assert base == v1.tools_names_hash(CODEC, v1.encode([{**flat, "parameters": {"type": "object"}}, hosted, space]))
    assert base != v1.tools_names_hash(CODEC, v1.encode([flat, space]))
    assert base != v1.tools_names_hash(CODEC, v1.encode([flat, {**space, "name": "mcp__y"}, hosted]))
    assert base != v1.tools_names_hash(CODEC, v1.encode([{**flat, "description": "does b"}, space, hosted]))

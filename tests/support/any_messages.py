"""Strategies for any message a host may hand over and any slots the view may hold of it."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from hypothesis import strategies as st

from foldlog.domain.edits import MessageSlots, PartSlots
from foldlog.projections.wire import v1

TEXTS = [b"", b" ", b"short", '§4§ é "q"\n'.encode(), b'{"a":1}']
CHUNKS = {sha256(text).digest(): text for text in TEXTS}
JSON_CHUNK = sha256(TEXTS[-1]).digest()

scraps = st.sampled_from(["", " ", "\n", "hi", '§3§ "x"', "§5.1", "\ud800", "\\"])
picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}, "data": "AAAA"}
texts = st.builds(lambda t: {"type": "text", "text": t}, scraps)
outputs = st.one_of(st.none(), scraps, st.lists(st.one_of(texts, st.just(picture), st.just({"type": "x"})), max_size=3))
marks = st.sampled_from([{}, {}, {"cache_control": {"type": "ephemeral"}}])


def blocks(codec: str) -> st.SearchStrategy[dict[str, Any]]:
    call = "toolCall" if codec == "pi" else "tool_use"
    kinds = [
        texts,
        st.just(picture),
        st.just({"type": call, "id": "c", "name": "n", "input": {"a": 1}, "arguments": {"a": 1}}),
        st.builds(lambda o: {"type": "tool_result", "tool_use_id": "c", "content": o}, outputs),
        st.just({"type": "thinking", "thinking": "hm", "signature": "s"}),
        st.just({"type": "redacted_thinking", "data": "AA"}),
    ]
    return st.builds(lambda block, mark: {**block, **mark}, st.one_of(kinds), marks)


states = st.one_of(
    st.builds(lambda o: {"status": "completed", "input": {"a": 1}, "output": o}, scraps),
    st.builds(lambda o: {"status": "completed", "input": {}, "output": o, "attachments": [FILE]}, scraps),
    st.builds(lambda o: {"status": "error", "input": {}, "error": o}, scraps),
    st.just({"status": "error", "metadata": {"interrupted": True, "output": "half"}}),
    st.just({"status": "completed", "output": "x", "time": {"compacted": 1}}),
    st.just({"status": "running", "input": {}}),
)
FILE = {"type": "file", "mime": "image/png", "url": "data:image/png;base64,AAAA"}
parts = st.one_of(
    texts,
    st.builds(lambda t: {"type": "text", "text": t, "ignored": True}, scraps),
    st.builds(lambda t: {"type": "reasoning", "text": t, "metadata": {"anthropic": {"signature": "s"}}}, scraps),
    st.builds(lambda s: {"type": "tool", "callID": "c", "tool": "n", "state": s, "id": "prt"}, states),
    st.sampled_from([FILE, {"type": "step-start"}, {"type": "step-finish"}, {"type": "compaction"}, {"type": "odd"}]),
)


def _item(kind: str, held: Any) -> dict[str, Any]:
    names = {"id": "i", "call_id": "c", "approval_request_id": "c", "name": "n"}
    return {"type": kind, **names, "output": held, "tools": held, "reason": held}


items = st.one_of(
    st.builds(
        _item,
        st.sampled_from(["function_call_output", "custom_tool_call_output", "apply_patch_call_output"]),
        st.one_of(st.none(), scraps, st.lists(st.one_of(texts, st.just({"type": "input_image"})), max_size=3)),
    ),
    st.builds(
        _item,
        st.sampled_from(
            ["shell_call_output", "computer_call_output", "tool_search_output", "mcp_approval_response", "odd"]
        ),
        st.one_of(outputs, st.just({"type": "computer_screenshot"}), st.just([{"stdout": "a"}, 7])),
    ),
    st.builds(
        lambda kind, given: {**_item(kind, None), "arguments": given, "input": given, "action": given},
        st.sampled_from(["function_call", "custom_tool_call", "shell_call", "computer_call", "mcp_approval_request"]),
        st.one_of(st.none(), scraps, st.just({"a": [1]})),
    ),
    st.builds(
        lambda said: {"type": "reasoning", "summary": [{"text": said}], "encrypted_content": said, "content": None},
        scraps,
    ),
)


@st.composite
def messages(draw: st.DrawFn) -> tuple[str, bytes]:
    codec = draw(st.sampled_from(v1.CODECS))
    content = draw(st.one_of(scraps, st.lists(blocks(codec), max_size=4)))
    value: dict[str, Any] = {"role": draw(st.sampled_from(["user", "assistant"])), "content": content}
    if codec == "openai-chat":
        kind = draw(st.sampled_from(["plain", "tool", "calls"]))
        if kind == "tool":
            value = {"role": "tool", "tool_call_id": "c", "content": draw(outputs)}
        elif kind == "calls":
            calls = [
                {"id": f"c{i}", "function": {"name": "n", "arguments": "{}"}} for i in range(draw(st.integers(0, 3)))
            ]
            content = draw(st.one_of(st.none(), scraps, st.lists(texts, max_size=2)))
            value = {"role": "assistant", "reasoning_content": draw(scraps), "content": content, "tool_calls": calls}
    elif codec == "pi" and draw(st.booleans()):
        value = {"role": "toolResult", "toolCallId": "c", "toolName": "n", "content": draw(outputs), "isError": False}
    if codec == "openai-responses" and draw(st.booleans()):
        value = draw(items)
    if codec == "opencode":
        value = {"info": {"role": value["role"], "id": "m"}, "parts": draw(st.lists(parts, max_size=5))}
    return codec, json.dumps(value, indent=draw(st.sampled_from([None, 1]))).encode()


chunk = st.sampled_from(sorted(CHUNKS))
sides = st.lists(
    st.tuples(st.sampled_from(["time", "hint", "note", "nudge"]), chunk), max_size=2, unique_by=lambda s: s[0]
)
part_slots = st.builds(
    lambda tag, body, text, pre, post, media, think: PartSlots(
        tag, body, JSON_CHUNK if body == "marker" else text, tuple(pre), tuple(post), media, think
    ),
    st.integers(-3, 3),
    st.sampled_from(["raw", "raw", "text", "placeholder", "skeleton", "marker", "empty", "absent"]),
    chunk,
    sides,
    sides,
    st.sampled_from(["keep", "strip"]),
    st.sampled_from(["keep", "cleared", "absent"]),
)
message_slots = st.builds(
    MessageSlots,
    st.lists(part_slots, max_size=6).map(tuple),
    st.sampled_from(["keep", "keep", "keep", "shell", "absent"]),
    chunk,
    st.integers(-1, 2),
)

"""OpenCode's messages: which parts they have, what identifies them, and what an edit may touch."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foldlog.domain.edits import Insert, MessageSlots, PartSlots
from foldlog.domain.errors import MessageError
from foldlog.projections.wire import v1
from foldlog.projections.wire.v1 import opencode

USER = {"id": "msg_1", "role": "user", "time": {"created": 1796027649366}}
ASSISTANT = {"id": "msg_2", "role": "assistant", "providerID": "p", "modelID": "m", "time": {"created": 5}}


def raw(info: dict[str, Any], *parts: dict[str, Any]) -> bytes:
    return v1.encode({"info": info, "parts": list(parts)})


def tool(status: str = "completed", call: str = "c1", **state: Any) -> dict[str, Any]:
    return {"type": "tool", "callID": call, "tool": "read", "id": "prt_9", "state": {"status": status, **state}}


def kinds(message: bytes) -> str:
    parts = v1.read("opencode", message, len).message.parts
    return "".join(type(part).__name__[0].lower() for part in parts)


def render(message: bytes, *slots: PartSlots, **shape: Any) -> Any:
    out = v1.render("opencode", message, MessageSlots(parts=slots, **shape), lambda _: b"ours")
    return None if out is None else json.loads(out)


def test_a_finished_tool_part_is_a_call_and_its_result() -> None:
    """VIEW-22."""
    done = raw(ASSISTANT, {"type": "step-start"}, tool(input={"path": "/a"}, output="hi"), {"type": "step-finish"})
    assert kinds(done) == "ocr"
    _, call, result = v1.read("opencode", done, len).message.parts
    assert (call.id, result.id, result.error) == ("c1", "c1", False)  # type: ignore[union-attr]
    assert v1.part_text("opencode", done, 1) == '{"path":"/a"}'
    assert v1.part_text("opencode", done, 2) == "hi"
    assert v1.original("opencode", done, 2) == v1.encode(tool(input={"path": "/a"}, output="hi"))


@pytest.mark.parametrize("status", ["pending", "running"])
def test_an_open_call_is_never_touched(status: str) -> None:
    """VIEW-23."""
    message = raw(ASSISTANT, tool(status, input={"path": "/a"}), {"type": "text", "text": "x"})
    assert kinds(message) == "cot"
    for body in ("absent", "empty", "marker", "skeleton"):
        assert render(message, PartSlots(body=body)) == json.loads(message)  # type: ignore[arg-type]


def test_a_call_that_finishes_is_a_revision_from_its_result_on() -> None:
    """VIEW-22: the call keeps its identity, so what stands before the result is as it was."""
    before = v1.part_idents("opencode", raw(ASSISTANT, tool("running", input={"a": 1})))
    after = v1.part_idents("opencode", raw(ASSISTANT, tool(input={"a": 1}, output="x", title="t", time={"end": 9})))
    assert after[:1] == before[:1]
    assert len(after) == len(before) == 2


def test_what_never_reaches_the_model_is_no_part() -> None:
    """VIEW-22."""
    said = [{"type": kind} for kind in ("step-finish", "snapshot", "patch", "agent", "retry")]
    files = [{"type": "file", "mime": mime, "url": "file:///a"} for mime in ("text/plain", "application/x-directory")]
    hidden = [{"type": "text", "text": "notice", "ignored": True}, {"type": "text", "text": ""}]
    assert kinds(raw(USER, *said, *files, *hidden)) == ""
    assert kinds(raw(ASSISTANT, {"type": "text", "text": ""})) == "t"  # an answer's empty text separates
    failed = {**ASSISTANT, "error": {"name": "APIError"}}
    aborted = {**ASSISTANT, "error": {"name": "MessageAbortedError"}}
    half = {"type": "text", "text": "half"}
    assert kinds(raw(failed, half)) == kinds(raw(aborted, {"type": "step-start"})) == ""
    assert kinds(raw(aborted, half)) == "t"


def test_identity_holds_only_what_the_model_sees() -> None:
    """JSON-10: ids, times, titles, tokens and costs may change."""
    old = raw(
        ASSISTANT, {"type": "text", "text": "a", "id": "1"}, tool(input={}, output="x", title="a", metadata={"p": 1})
    )
    new = raw(
        {**ASSISTANT, "cost": 3, "tokens": {"input": 9}},
        {"type": "text", "text": "a", "id": "2", "time": {"start": 1}},
        {**tool(input={}, output="x", title="b"), "id": "prt_0"},
        {"type": "step-finish", "cost": 3},
    )
    assert v1.read("opencode", old, len).message.ident == v1.read("opencode", new, len).message.ident
    for other in (tool(input={}, output="y"), tool(input={"a": 1}, output="x"), tool("error", input={}, error="x")):
        changed = raw(ASSISTANT, {"type": "text", "text": "a"}, other)
        assert v1.read("opencode", changed, len).message.ident != v1.read("opencode", old, len).message.ident


def test_ids_and_times_of_the_host_are_kept() -> None:
    message = v1.read("opencode", raw(USER, {"type": "text", "text": "a"}), len).message
    assert (message.host_id, message.stamp) == ("msg_1", 1796027649366)


def test_a_result_is_written_where_the_host_reads_it() -> None:
    """VIEW-23."""
    picture = {"type": "file", "mime": "image/png", "url": "data:image/png;base64,AAAA", "id": "a"}
    interrupted = tool("error", error="gone", metadata={"interrupted": True, "output": "half"})
    cleared = tool(output="long", time={"compacted": 1})
    for part, path in (
        (tool(output="x"), ("output",)),
        (tool("error", error="x"), ("error",)),
        (interrupted, ("metadata", "output")),
    ):
        state = render(raw(ASSISTANT, part), PartSlots(), PartSlots(tag=7, body="placeholder"))["parts"][0]["state"]
        for key in path:
            state = state[key]
        assert state == "[dropped §7§]"
    assert render(raw(ASSISTANT, cleared), PartSlots(), PartSlots(tag=7))["parts"][0] == cleared
    stripped = PartSlots(tag=7, body="placeholder", media="strip")
    state = render(raw(ASSISTANT, tool(output="x", attachments=[picture])), PartSlots(), stripped)["parts"][0]["state"]
    assert (state["output"], state["attachments"]) == ("[dropped §7§]", [])


@pytest.mark.parametrize("half", [0, 1])
def test_there_is_no_half_of_a_tool_part(half: int) -> None:
    """VIEW-23, VIEW-24: and what is left of the message must reach the model."""
    gone = [PartSlots(), PartSlots(), PartSlots()]
    gone[1 + half] = PartSlots(body="absent")
    assert render(raw(ASSISTANT, {"type": "step-start"}, tool(output="x")), *gone) is None
    said = render(raw(ASSISTANT, {"type": "step-start"}, tool(output="x"), {"type": "text", "text": "so"}), *gone)
    assert [part["type"] for part in said["parts"]] == ["step-start", "text"]


def test_all_other_members_of_the_host_survive() -> None:
    """VIEW-24, JSON-2."""
    text = b'{"type":"text","id":"prt_1","text":"hi","odd":1.10}'
    message = b'{"info":{"role":"user","id":"m","n":-0},"parts":[' + text + b'],"more":[1e400]}'
    tagged = v1.render("opencode", message, MessageSlots(parts=(PartSlots(tag=5),)), lambda _: b"")
    assert tagged == message.replace(b'"hi"', '"§5§ hi"'.encode())
    shell = v1.render("opencode", message, MessageSlots(shape="shell"), lambda _: b"[dropped]")
    ours = b'{"type":"text","text":"[dropped]","synthetic":true}'
    assert shell == message.replace(text, ours)


def test_an_arc_is_one_message() -> None:
    """VIEW-24."""
    arc = b'{"id":"todo_1","input":{"items":["a"]},"name":"todowrite","output":"done"}'
    (message,) = v1.insert_messages("opencode", Insert(3, 0, "x", "arc", b""), arc)
    call, result = v1.read("opencode", message, len).message.parts
    assert (call.id, call.name, result.id) == ("todo_1", "todowrite", "todo_1")  # type: ignore[union-attr]
    assert v1.part_text("opencode", message, 1) == "done"


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "hi"},
        {"info": {"role": "system"}, "parts": []},
        {"info": {"role": "user"}, "parts": "hi"},
        {"info": {"role": "user"}, "parts": ["hi"]},
        {"info": {"role": "user"}, "parts": [{"text": "no type"}]},
        {"info": {"role": "user"}, "parts": [{"type": "text"}]},
        {"info": {"role": "assistant"}, "parts": [{"type": "tool", "tool": "x", "state": {}}]},
        {"info": {"role": "assistant"}, "parts": [{"type": "tool", "callID": "c", "state": {}}]},
        {"info": {"role": "assistant"}, "parts": [{"type": "tool", "callID": "c", "tool": "x"}]},
        {"info": {"role": "assistant"}, "parts": [tool(output={"a": 1})]},
    ],
)
def test_what_is_no_message_of_opencode_is_refused(message: Any) -> None:
    with pytest.raises(MessageError):
        v1.read("opencode", v1.encode(message), len)


def test_the_words_of_the_host_are_known() -> None:
    assert opencode.output_of(tool(output="x", time={"compacted": 3})).text == "[Old tool result content cleared]"

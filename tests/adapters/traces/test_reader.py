"""Recorded sessions become the requests their host would have sent (specs/traces.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from foldlog.adapters.traces.model import Trace, messages_of
from foldlog.adapters.traces.reader import Usage, load, write
from foldlog.domain.errors import InputError

SHARED = Path(__file__).resolve().parents[3] / ".." / "shared" / "traces"
REQUESTS = {
    "claude-code-a-opus46": (259, "anthropic"),
    "claude-code-b-sonnet45": (290, "anthropic"),
    "pi-a-opus45": (484, "pi"),
    "mini-swe-a-sqlfluff-deepseek": (157, "openai-chat"),
}
NO_REQUEST = ("message made by the host", "turn aborted", "turn error", "answer with nothing left")


def recorded(name: str) -> Path:
    path = SHARED / f"{name}.jsonl"
    if not path.exists():
        pytest.skip("the shared traces are not beside this checkout")
    return path


def calls_and_results(message: dict[str, Any]) -> tuple[list[str], list[str]]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    calls = [b["id"] for b in blocks if b["type"] in ("tool_use", "toolCall")]
    calls += [c["id"] for c in message.get("tool_calls") or []]
    results = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
    results += [message[key] for key in ("toolCallId", "tool_call_id") if key in message]
    return calls, results


def assert_valid(trace: Trace) -> None:
    """Every request: calls answered right behind, ids once, texts not blank, input last, an answer first."""
    seen: set[str] = set()
    open_calls: list[str] = []
    before = ""
    made_by_host = 0
    for number, step in enumerate(trace.steps):
        assert step.messages, number
        for position, raw in enumerate(step.messages):
            message = json.loads(raw)
            role = message["role"]
            made_by_host += role == "assistant" and position > 0
            if position == 0 and number > 0:
                assert role == "assistant", number
            calls, results = calls_and_results(message)
            if results:
                assert set(results) <= set(open_calls), (number, results)
                open_calls = [call for call in open_calls if call not in results]
                if trace.codec == "anthropic":
                    kinds = [block["type"] == "tool_result" for block in message["content"]]
                    assert kinds == sorted(kinds, reverse=True), number
                    assert not open_calls, number
            else:
                assert not open_calls, (number, open_calls)
            assert seen.isdisjoint(calls), number
            seen.update(calls)
            open_calls += calls
            blocks = message["content"] if isinstance(message.get("content"), list) else []
            for block in blocks:
                assert block.get("text", "x").strip() or trace.codec == "pi", (number, block)
            if trace.codec == "anthropic":
                assert role != before, number
                assert message.keys() == {"role", "content"}
                assert message["content"]
            before = role
        assert not open_calls, (number, open_calls)
        assert before != "assistant", number
    assert made_by_host == trace.ignored.get("message made by the host", 0)


@pytest.mark.parametrize("name", REQUESTS)
def test_recorded_sessions_load_whole(name: str) -> None:
    """TRACE-11: every answer in the README's count is a request, but for turns that left nothing in the array."""
    trace = load(recorded(name))
    total, codec = REQUESTS[name]
    left_out = sum(trace.ignored.get(reason, 0) for reason in NO_REQUEST)
    assert trace.codec == codec
    assert len(trace.steps) + left_out == total
    assert trace.skipped == ()
    assert all(step.usage is not None for step in trace.steps)
    assert all(step.at > 1_700_000_000_000 for step in trace.steps)
    assert_valid(trace)


def test_first_usage_is_the_recorded_one() -> None:
    """TRACE-13: uncached input, cache reads and writes come from the answer to that request."""
    first = json.loads(recorded("claude-code-b-sonnet45").read_bytes().split(b"\n")[1])["message"]["usage"]
    usage = load(recorded("claude-code-b-sonnet45")).steps[0].usage
    assert usage is not None
    assert usage.input == first["input_tokens"]
    assert usage.cache_read == first["cache_read_input_tokens"]
    assert usage.cache_write == first["cache_creation_input_tokens"] > 0
    swe = load(recorded("mini-swe-a-sqlfluff-deepseek"))
    assert swe.steps[-1].usage == Usage(51, 100352, -1, 377)
    assert swe.tail == ()


def test_pi_messages_are_the_bytes_of_the_file() -> None:
    """TRACE-3: a message that needs no change is not re-encoded."""
    path = recorded("pi-a-opus45")
    body = path.read_bytes()
    trace = load(path)
    made = [raw for raw in messages_of(trace) if raw not in body]
    assert len(made) == trace.ignored["call closed as unanswered"] == 1
    assert json.loads(made[0])["content"] == [{"type": "text", "text": "No result provided"}]
    assert any(json.loads(raw)["role"] == "bashExecution" for raw in messages_of(trace))


def claude(kind: str, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content, **more.pop("message", {})}
    return {"type": kind, "uuid": more.pop("uuid", None), "message": message, **more}


def use(call: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": "bash", "input": {}}


def result(call: str, text: Any = "ok") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": text}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def saved(folder: Path, rows: list[Any], name: str = "x.txt") -> Path:
    path = folder / name
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def arrays(trace: Trace) -> list[Any]:
    return [json.loads(raw) for raw in messages_of(trace)]


def test_lines_of_one_response_join_across_a_result(tmp_path: Path) -> None:
    """TRACE-4, TRACE-5, TRACE-7, TRACE-12: one message per id, times as lines came, the round's results first."""
    one, two = {"id": "m1", "usage": {"input_tokens": 5, "output_tokens": 1}}, {"id": "m2"}
    rows = [
        claude("user", "do it", timestamp="2026-01-01T00:00:01Z"),
        claude("assistant", [text("\n\n")], message=one),
        claude("assistant", [use("a")], message=one),
        claude("user", [result("a")], timestamp="2026-01-01T00:00:03Z"),
        claude("assistant", [use("b")], message={**one, "usage": {"input_tokens": 5, "output_tokens": 9}}),
        claude("user", "by the way", timestamp="2026-01-01T00:00:04Z"),
        claude("user", [result("b", [text(" "), text("out")])], timestamp="2026-01-01T00:00:02Z"),
        claude("assistant", "done", message=two),
    ]
    trace = load(saved(tmp_path, rows))
    assert_valid(trace)
    assert arrays(trace) == [
        {"role": "user", "content": "do it"},
        {"role": "assistant", "content": [use("a"), use("b")]},
        {"role": "user", "content": [result("a"), result("b", [text("out")]), text("by the way")]},
    ]
    assert [step.at for step in trace.steps] == [1_767_225_601_000, 1_767_225_602_000]
    assert trace.steps[0].usage == Usage(5, -1, -1, 9)
    assert arrays_of(trace.tail) == [{"role": "assistant", "content": "done"}]


def test_what_the_host_said_in_the_agent_s_name_answers_no_request(tmp_path: Path) -> None:
    """TRACE-10: a synthetic message stands in the array, joined to its neighbour, and made no request of its own."""
    rows = [
        claude("user", "go"),
        claude("assistant", "No response requested.", message={"id": "s", "model": "<synthetic>"}),
        claude("user", "and now?"),
        claude("assistant", "one", message={"id": "m1"}),
        claude("assistant", "two", message={"id": "m2"}),
        claude("user", "thanks"),
        claude("assistant", "done", message={"id": "m3"}),
    ]
    trace = load(saved(tmp_path, rows))
    assert_valid(trace)
    assert trace.ignored["message made by the host"] == 1
    assert len(trace.steps) == 2
    assert [message["role"] for message in arrays(trace)] == ["user", "assistant", "user", "assistant", "user"]
    assert "No response requested." in str(arrays(trace)[1])
    joined = arrays(trace)[3]["content"]
    assert [block["text"] for block in joined] == ["one", "two"]


def arrays_of(raws: tuple[bytes, ...]) -> list[Any]:
    return [json.loads(raw) for raw in raws]


def test_what_the_host_would_not_send_is_counted(tmp_path: Path) -> None:
    """TRACE-6, TRACE-8, TRACE-9: compactions, sidechains, orphans, blanks and doubles go; open calls are closed."""
    rows = [
        claude("assistant", "cut off start", message={"id": "m0"}),
        claude("user", "go", uuid="u"),
        claude("user", "go", uuid="u"),
        claude("user", "hidden", isSidechain=True),
        {"type": "system", "subtype": "compact_boundary"},
        claude("user", "summary of all", isCompactSummary=True),
        claude("user", [text("caveat")], isMeta=True),
        claude("assistant", [{"type": "thinking", "thinking": "t", "signature": "s"}], message={"id": "m1"}),
        claude("assistant", "API Error", message={"id": "e", "model": "<synthetic>"}, isApiErrorMessage=True),
        claude("user", [result("nobody")]),
        claude("assistant", [use("a"), use("b")], message={"id": "m2"}),
        claude("user", [result("b")]),
        claude("user", "[Request interrupted by user for tool use]"),
        claude("assistant", "fine", message={"id": "m3"}),
        {"type": "file-history-snapshot"},
    ]
    trace = load(saved(tmp_path, rows))
    assert_valid(trace)
    messages = arrays(trace)
    assert messages[0]["content"] == [text("go"), text("caveat")]
    closed = {**result("a", "[Request interrupted by user for tool use]"), "is_error": True}
    assert messages[2]["content"] == [result("b"), closed, text("[Request interrupted by user for tool use]")]
    assert trace.ignored == {
        "answer with nothing left": 1,
        "call closed as unanswered": 1,
        "host compaction": 1,
        "sidechain": 1,
        "host compaction summary": 1,
        "line of type file-history-snapshot": 1,
        "line recorded twice": 1,
        "message before the first input": 1,
        "provider error": 1,
        "result without a call": 1,
    }


def test_broken_lines_are_named(tmp_path: Path) -> None:
    """TRACE-1: a broken line is skipped with its number and reason; blank lines are not counted."""
    deep = "[" * 5000 + "]" * 5000
    rows = [claude("user", "hi"), '{"type":"user",', "", "[1]", deep, claude("user", None), claude("assistant", "yes")]
    trace = load(saved(tmp_path, rows))
    assert [(one.line, one.why.split(":")[0]) for one in trace.skipped] == [
        (2, "not JSON"),
        (4, "a JSON list, not an object"),
        (5, trace.skipped[2].why.split(":")[0]),
        (6, "the message has no content"),
    ]
    assert len(trace.steps) == 1


UNUSABLE = ("", "\n\n", "not json", "[]", "{}", '{"messages":[]}', '{"role":"user","content":"x"}', "[1,2]")


@pytest.mark.parametrize("body", UNUSABLE)
def test_nothing_usable_is_an_error(tmp_path: Path, body: str) -> None:
    """TRACE-1: no request, no trace; the error names the file."""
    path = saved(tmp_path, [body])
    with pytest.raises(InputError, match="nothing in this file is a request") as caught:
        load(path)
    assert caught.value.value == str(path)


def test_missing_file_and_folder_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path)


FUNCTION = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CHAT = [
    {"role": "system", "content": "be good"},
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": None, "tool_calls": [FUNCTION]},
    {"role": "tool", "tool_call_id": "c", "content": "r"},
    {"role": "assistant", "content": "bye"},
]
ANTHROPIC = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": [use("c")]},
    {"role": "user", "content": [result("c")]},
    {"role": "assistant", "content": "bye"},
]
PI = [
    {"role": "user", "content": "hi", "timestamp": 1_700_000_000_000},
    {
        "role": "assistant",
        "content": [{"type": "toolCall", "id": "c", "name": "f", "arguments": {}}],
        "stopReason": "toolUse",
    },
    {"role": "toolResult", "toolCallId": "c", "toolName": "f", "content": [text("r")], "isError": False},
    {"role": "assistant", "content": [text("bye")], "stopReason": "stop"},
]


@pytest.mark.parametrize(("messages", "codec"), [(CHAT, "openai-chat"), (ANTHROPIC, "anthropic"), (PI, "pi")])
@pytest.mark.parametrize("shape", ["array", "pretty", "object", "lines", "one line of several"])
def test_arrays_are_told_apart_by_content(tmp_path: Path, messages: list[Any], codec: str, shape: str) -> None:
    """TRACE-2: an array in any of its wrappings is the same two requests."""
    frame = {"messages": messages}
    bodies = {
        "array": [messages],
        "pretty": [json.dumps(frame, indent=1)],
        "object": [frame],
        "lines": messages,
        "one line of several": [{"messages": messages[:-2]}, frame],
    }
    trace = load(saved(tmp_path, bodies[shape], "session.jsonl"))
    assert (trace.codec, len(trace.steps)) == (codec, 2)
    assert arrays(trace) + arrays_of(trace.tail) == messages
    assert_valid(trace)


def test_system_and_tools_of_a_frame_are_kept(tmp_path: Path) -> None:
    frame = {"model": "claude-x", "system": "S", "tools": [{"name": "f", "input_schema": {}}], "messages": ANTHROPIC}
    trace = load(saved(tmp_path, [frame]))
    assert (trace.system, json.loads(trace.tools or b""), trace.model) == (b'"S"', frame["tools"], "claude-x")


def test_chat_calls_without_results(tmp_path: Path) -> None:
    """TRACE-9: in the middle closed with an error result, at the end left out, the request itself kept."""
    said = {**CHAT[4], "response": {"usage": {"prompt_tokens": 9}}}
    rows = [*CHAT[:3], {"role": "user", "content": "?"}, said, *CHAT[1:3]]
    trace = load(saved(tmp_path, rows))
    assert [m["role"] for m in arrays(trace)] == ["system", "user", "assistant", "tool", "user", "assistant", "user"]
    assert arrays(trace)[3]["content"] == "No result provided"
    assert (len(trace.steps), trace.tail) == (3, ())
    assert trace.steps[1].usage == Usage(9, -1, -1, -1)
    assert "response" not in arrays(trace)[5]


def test_own_files_come_back_equal_and_stop_at_a_broken_line(tmp_path: Path) -> None:
    """TRACE-14: write and load are inverse; behind a broken request nothing has a beginning."""
    trace = load(saved(tmp_path, [ANTHROPIC]))
    path = tmp_path / "own"
    write(trace, path)
    again = load(path)
    assert again.steps == trace.steps
    assert again.tail == trace.tail
    rows = path.read_text().splitlines()
    path.write_text("\n".join([*rows[:2], rows[2][:-5], *rows[3:]]))
    cut = load(path)
    assert cut.steps == trace.steps[:1]
    assert [one.line for one in cut.skipped] == [3]
    with pytest.raises(InputError, match="newer"):
        load(saved(tmp_path, [rows[0].replace('"version":1', '"version":99'), *rows[1:]], "newer"))
    with pytest.raises(InputError, match="cannot be written"):
        write(trace, tmp_path / "no" / "folder")

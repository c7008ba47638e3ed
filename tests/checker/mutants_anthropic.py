"""Mutants of Anthropic requests: for each rule, ways to break a valid request so that exactly this rule rejects it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .base import clone
from .mutation import Mutants, NotApplicable, Request, add_tools, first, mutant, tool

MUTANTS: Mutants = []


def _blocks(request: Request, *kinds: str) -> Iterator[dict[str, Any]]:
    for message in request["messages"]:
        if isinstance(message["content"], list):
            yield from (block for block in message["content"] if block["type"] in kinds)


def _calls(request: Request) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Yield each call with its result and the message that holds the result."""
    for call in _blocks(request, "tool_use"):
        for message in request["messages"]:
            if isinstance(message["content"], list):
                for block in message["content"]:
                    if block.get("tool_use_id") == call["id"]:
                        yield call, block, message


def _last_user(request: Request) -> list[dict[str, Any]]:
    message = request["messages"][-1]
    if isinstance(message["content"], str):
        message["content"] = [{"type": "text", "text": message["content"]}]
    content: list[dict[str, Any]] = message["content"]
    return content


def _say(request: Request, text: str) -> None:
    _last_user(request).append({"type": "text", "text": text})


@mutant(MUTANTS, "ANT-1", "anthropic")
def infinite_argument(request: Request) -> None:
    first(_blocks(request, "tool_use"))["input"]["timeout"] = float("inf")


@mutant(MUTANTS, "ANT-1", "anthropic")
def number_as_key(request: Request) -> None:
    first(_blocks(request, "tool_use"))["input"][1] = "one"


@mutant(MUTANTS, "ANT-2", "anthropic")
def half_pair_in_text(request: Request) -> None:
    first(_blocks(request, "text"))["text"] += "\ud83d"


@mutant(MUTANTS, "ANT-2", "anthropic")
def half_pair_in_result(request: Request) -> None:
    results = _blocks(request, "tool_result")
    first(block for block in results if isinstance(block.get("content"), str))["content"] += "\udc00"


@mutant(MUTANTS, "ANT-3", "anthropic")
def no_messages(request: Request) -> None:
    request["messages"] = []


@mutant(MUTANTS, "ANT-3", "anthropic")
def foreign_member_of_message(request: Request) -> None:
    request["messages"][-1]["id"] = "m1"


@mutant(MUTANTS, "ANT-4", "anthropic")
def developer_role(request: Request) -> None:
    request["messages"].append({"role": "developer", "content": "Be brief."})


@mutant(MUTANTS, "ANT-4", "anthropic")
def tool_role(request: Request) -> None:
    request["messages"].append({"role": "tool", "content": "done"})


@mutant(MUTANTS, "ANT-5", "anthropic")
def assistant_first(request: Request) -> None:
    request["messages"].insert(0, {"role": "assistant", "content": "Hello."})


@mutant(MUTANTS, "ANT-6", "anthropic")
def assistant_last(request: Request) -> None:
    request["messages"].append({"role": "assistant", "content": [{"type": "text", "text": "I"}]})


@mutant(MUTANTS, "ANT-7", "anthropic")
def content_is_object(request: Request) -> None:
    request["messages"].append({"role": "user", "content": {"type": "text", "text": "Hello."}})


@mutant(MUTANTS, "ANT-7", "anthropic")
def content_is_null(request: Request) -> None:
    request["messages"].append({"role": "user", "content": None})


@mutant(MUTANTS, "ANT-7", "anthropic")
def bare_text_among_blocks(request: Request) -> None:
    request["messages"].append({"role": "user", "content": ["Hello."]})


@mutant(MUTANTS, "ANT-8", "anthropic")
def empty_user_message(request: Request) -> None:
    request["messages"].append({"role": "user", "content": []})


@mutant(MUTANTS, "ANT-8", "anthropic")
def empty_assistant_inside(request: Request) -> None:
    request["messages"] += [{"role": "assistant", "content": []}, {"role": "user", "content": "Go on."}]


@mutant(MUTANTS, "ANT-9", "anthropic")
def empty_text_block(request: Request) -> None:
    _say(request, "")


@mutant(MUTANTS, "ANT-9", "anthropic")
def blank_assistant_text(request: Request) -> None:
    message = first(m for m in request["messages"] if m["role"] == "assistant" and isinstance(m["content"], list))
    at = next((i for i, block in enumerate(message["content"]) if block["type"] in ("text", "tool_use")), 0)
    message["content"].insert(at, {"type": "text", "text": "\n\n"})


@mutant(MUTANTS, "ANT-9", "anthropic")
def blank_string_content(request: Request) -> None:
    request["messages"].append({"role": "user", "content": "  "})


@mutant(MUTANTS, "ANT-9", "anthropic")
def blank_system(request: Request) -> None:
    request["system"] = [{"type": "text", "text": "\t"}]


@mutant(MUTANTS, "ANT-9", "anthropic")
def blank_text_in_result(request: Request) -> None:
    first(_blocks(request, "tool_result"))["content"] = [{"type": "text", "text": ""}]


@mutant(MUTANTS, "ANT-10", "anthropic")
def unknown_block(request: Request) -> None:
    _last_user(request).append({"type": "placeholder", "text": "x"})


@mutant(MUTANTS, "ANT-10", "anthropic")
def text_without_text(request: Request) -> None:
    _last_user(request).append({"type": "text"})


@mutant(MUTANTS, "ANT-10", "anthropic")
def foreign_member_of_block(request: Request) -> None:
    first(_blocks(request, "text"))["tag"] = 7


@mutant(MUTANTS, "ANT-10", "anthropic")
def error_flag_is_text(request: Request) -> None:
    first(_blocks(request, "tool_result"))["is_error"] = "false"


@mutant(MUTANTS, "ANT-11", "anthropic")
def thinking_of_user(request: Request) -> None:
    _last_user(request).append({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"})


@mutant(MUTANTS, "ANT-11", "anthropic")
def image_of_assistant(request: Request) -> None:
    message = first(m for m in request["messages"] if m["role"] == "assistant" and isinstance(m["content"], list))
    message["content"].append({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}})


@mutant(MUTANTS, "ANT-12", "anthropic")
def id_with_pipe(request: Request) -> None:
    call, result, _ = first(_calls(request))
    call["id"] = result["tool_use_id"] = "call_1|fc_1"


@mutant(MUTANTS, "ANT-12", "anthropic")
def id_too_long(request: Request) -> None:
    call, result, _ = first(_calls(request))
    call["id"] = result["tool_use_id"] = "a" * 65


@mutant(MUTANTS, "ANT-13", "anthropic")
def id_used_again(request: Request) -> None:
    pairs = _calls(request)
    earlier, _, home = first(pairs)
    call, result, _ = first(pair for pair in pairs if _turn_of(request, pair[2]) != _turn_of(request, home))
    call["id"] = result["tool_use_id"] = earlier["id"]


def _turn_of(request: Request, message: dict[str, Any]) -> int:
    at = next(i for i, other in enumerate(request["messages"]) if other is message)
    return sum(other["role"] == "assistant" for other in request["messages"][:at])


@mutant(MUTANTS, "ANT-14", "anthropic")
def result_lost(request: Request) -> None:
    _, result, message = first(_calls(request))
    at = next(i for i, block in enumerate(message["content"]) if block is result)
    message["content"][at : at + 1] = [] if len(message["content"]) > 1 else [{"type": "text", "text": "gone"}]


@mutant(MUTANTS, "ANT-15", "anthropic")
def call_lost(request: Request) -> None:
    for message in request["messages"]:
        content = message["content"]
        if message["role"] == "assistant" and isinstance(content, list) and len(content) > 1:
            at = next((i for i, block in enumerate(content) if block["type"] == "tool_use"), None)
            if at is not None:
                del content[at]
                return
    raise NotApplicable


@mutant(MUTANTS, "ANT-15", "anthropic")
def result_of_nothing(request: Request) -> None:
    _, _, message = first(_calls(request))
    message["content"].insert(0, {"type": "tool_result", "tool_use_id": "toolu_never", "content": "x"})


@mutant(MUTANTS, "ANT-16", "anthropic")
def answered_twice(request: Request) -> None:
    _, result, message = first(_calls(request))
    message["content"].insert(0, clone(result))


@mutant(MUTANTS, "ANT-17", "anthropic")
def text_before_result(request: Request) -> None:
    _, _, message = first(_calls(request))
    message["content"].insert(0, {"type": "text", "text": "First."})


@mutant(MUTANTS, "ANT-18", "anthropic")
def signature_lost(request: Request) -> None:
    del first(_blocks(request, "thinking"))["signature"]


@mutant(MUTANTS, "ANT-18", "anthropic")
def thinking_emptied(request: Request) -> None:
    first(_blocks(request, "thinking"))["thinking"] = ""


@mutant(MUTANTS, "ANT-18", "anthropic")
def redacted_data_emptied(request: Request) -> None:
    first(_blocks(request, "redacted_thinking"))["data"] = ""


@mutant(MUTANTS, "ANT-19", "anthropic")
def thinking_behind_text(request: Request) -> None:
    for message in request["messages"]:
        content = message["content"]
        if message["role"] == "assistant" and isinstance(content, list) and content[0]["type"] == "thinking":
            content.insert(0, {"type": "text", "text": "Well."})
            return
    raise NotApplicable


@mutant(MUTANTS, "ANT-19", "anthropic")
def two_thinking_turns_fused(request: Request) -> None:
    thought = {"type": "thinking", "thinking": "Again.", "signature": "c2ln"}
    for word in ("One.", "Two."):
        said = [dict(thought), {"type": "text", "text": word}]
        request["messages"].append({"role": "assistant", "content": said})
    request["messages"].append({"role": "user", "content": "Go on."})


def _round_start(request: Request) -> int:
    """Return where the running round of calls begins: the last user message that is not results only."""
    for at in range(len(request["messages"]) - 1, -1, -1):
        message = request["messages"][at]
        content = message["content"]
        if message["role"] == "user" and (isinstance(content, str) or content[-1]["type"] != "tool_result"):
            return at
    raise NotApplicable


@mutant(MUTANTS, "ANT-31", "anthropic-against")
def old_thinking_reworded(request: Request) -> None:
    at = _round_start(request)
    older = {"messages": request["messages"][:at]}
    first(_blocks(older, "thinking"))["thinking"] += " And so on."


@mutant(MUTANTS, "ANT-32", "anthropic-against")
def running_thinking_lost(request: Request) -> None:
    at = _round_start(request)
    for message in request["messages"][at:]:
        if isinstance(message["content"], list):
            kept = [block for block in message["content"] if block["type"] != "thinking"]
            if kept and len(kept) < len(message["content"]):
                message["content"] = kept
                return
    raise NotApplicable


@mutant(MUTANTS, "ANT-20", "anthropic")
def five_marks(request: Request) -> None:
    request["system"] = [{"type": "text", "text": f"Part {n}."} for n in range(5)]
    for block in request["system"]:
        block["cache_control"] = {"type": "ephemeral", "ttl": "1h"}
    for marked in request.get("tools") or []:
        marked.pop("cache_control", None)


@mutant(MUTANTS, "ANT-21", "anthropic")
def long_mark_behind_short(request: Request) -> None:
    request["system"] = [
        {"type": "text", "text": "One.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "Two.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ]


@mutant(MUTANTS, "ANT-22", "anthropic")
def mark_of_a_day(request: Request) -> None:
    first(_blocks(request, "text"))["cache_control"] = {"type": "ephemeral", "ttl": "24h"}


@mutant(MUTANTS, "ANT-22", "anthropic")
def mark_is_true(request: Request) -> None:
    first(_blocks(request, "text"))["cache_control"] = True


@mutant(MUTANTS, "ANT-23", "anthropic")
def mark_on_thinking(request: Request) -> None:
    first(_blocks(request, "thinking", "redacted_thinking"))["cache_control"] = {"type": "ephemeral", "ttl": "1h"}


@mutant(MUTANTS, "ANT-24", "anthropic")
def image_data_cut(request: Request) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo…[9000 chars]"}
    _last_user(request).append({"type": "image", "source": source})


@mutant(MUTANTS, "ANT-24", "anthropic")
def image_of_unknown_media(request: Request) -> None:
    source = {"type": "base64", "media_type": "image/tiff", "data": "AAAA"}
    _last_user(request).append({"type": "image", "source": source})


@mutant(MUTANTS, "ANT-25", "anthropic")
def result_is_object(request: Request) -> None:
    first(_blocks(request, "tool_result"))["content"] = {"output": "x"}


@mutant(MUTANTS, "ANT-25", "anthropic")
def thinking_in_result(request: Request) -> None:
    inner = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    first(_blocks(request, "tool_result"))["content"] = [inner]


@mutant(MUTANTS, "ANT-26", "anthropic")
def tool_name_with_space(request: Request) -> None:
    add_tools(request, tool("do it"))


@mutant(MUTANTS, "ANT-26", "anthropic")
def tool_without_schema(request: Request) -> None:
    add_tools(request, {"name": "bare"})


@mutant(MUTANTS, "ANT-27", "anthropic")
def tool_twice(request: Request) -> None:
    add_tools(request, tool("twin"), tool("twin"))


@mutant(MUTANTS, "ANT-28", "anthropic")
def call_name_with_dot(request: Request) -> None:
    first(_blocks(request, "tool_use"))["name"] = "mcp.read"


@mutant(MUTANTS, "ANT-29", "anthropic")
def arguments_as_text(request: Request) -> None:
    first(_blocks(request, "tool_use"))["input"] = '{"path": "a"}'


@mutant(MUTANTS, "ANT-30", "anthropic")
def system_is_object(request: Request) -> None:
    request["system"] = {"type": "text", "text": "Be brief."}


@mutant(MUTANTS, "ANT-30", "anthropic")
def image_in_system(request: Request) -> None:
    request["system"] = [{"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}]


@mutant(MUTANTS, "ANT-33", "anthropic")
def system_behind_an_answer(request: Request) -> None:
    at = first(at for at, message in enumerate(request["messages"]) if message["role"] == "assistant")
    request["messages"].insert(at + 1, {"role": "system", "content": "Be brief."})


@mutant(MUTANTS, "ANT-33", "anthropic")
def two_system_messages(request: Request) -> None:
    request["messages"] += [{"role": "system", "content": "Be brief."}, {"role": "system", "content": "Be kind."}]


@mutant(MUTANTS, "ANT-33", "anthropic")
def empty_system_message(request: Request) -> None:
    request["messages"].append({"role": "system", "content": []})

"""For each rule, ways to break a valid request so that exactly this rule rejects it.

A mutant takes a valid request, copies it, and breaks it at the first place that can carry the break; where there is no
such place it raises ``NotApplicable``. ``MUTANTS`` lists (rule, function, family).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .base import clone

Request = dict[str, Any]
Mutate = Callable[[Any], Any]

MUTANTS: list[tuple[str, Mutate, str]] = []


class NotApplicable(Exception):
    """The request has no place where this rule could be broken alone."""


def _mutant(rule: str, family: str) -> Callable[[Mutate], Mutate]:
    def register(change: Mutate) -> Mutate:
        def mutate(request: Any) -> Any:
            copy = clone(request)
            change(copy)
            return copy

        mutate.__name__ = change.__name__
        MUTANTS.append((rule, mutate, family))
        return mutate

    return register


def _blocks(request: Request, *kinds: str) -> Iterator[dict[str, Any]]:
    for message in request["messages"]:
        if isinstance(message["content"], list):
            yield from (block for block in message["content"] if block["type"] in kinds)


def _first(found: Iterator[Any]) -> Any:
    for item in found:
        return item
    raise NotApplicable


def _calls(request: Request) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Yield each call with its result and the message that holds the result."""
    for call in _blocks(request, "tool_use"):
        for message in request["messages"]:
            if isinstance(message["content"], list):
                for block in message["content"]:
                    if block.get("tool_use_id") == call["id"]:
                        yield call, block, message


def _tool(name: str) -> dict[str, Any]:
    return {"name": name, "input_schema": {"type": "object"}}


def _add_tools(request: Request, *tools: Any) -> None:
    request["tools"] = [*(request.get("tools") or []), *tools]


def _last_user(request: Request) -> list[dict[str, Any]]:
    message = request["messages"][-1]
    if isinstance(message["content"], str):
        message["content"] = [{"type": "text", "text": message["content"]}]
    content: list[dict[str, Any]] = message["content"]
    return content


def _say(request: Request, text: str) -> None:
    _last_user(request).append({"type": "text", "text": text})


@_mutant("ANT-1", "anthropic")
def infinite_argument(request: Request) -> None:
    _first(_blocks(request, "tool_use"))["input"]["timeout"] = float("inf")


@_mutant("ANT-1", "anthropic")
def number_as_key(request: Request) -> None:
    _first(_blocks(request, "tool_use"))["input"][1] = "one"


@_mutant("ANT-2", "anthropic")
def half_pair_in_text(request: Request) -> None:
    _first(_blocks(request, "text"))["text"] += "\ud83d"


@_mutant("ANT-2", "anthropic")
def half_pair_in_result(request: Request) -> None:
    results = _blocks(request, "tool_result")
    _first(block for block in results if isinstance(block.get("content"), str))["content"] += "\udc00"


@_mutant("ANT-3", "anthropic")
def no_messages(request: Request) -> None:
    request["messages"] = []


@_mutant("ANT-3", "anthropic")
def foreign_member_of_message(request: Request) -> None:
    request["messages"][-1]["id"] = "m1"


@_mutant("ANT-4", "anthropic")
def system_role_inside(request: Request) -> None:
    request["messages"].insert(1, {"role": "system", "content": "Be brief."})


@_mutant("ANT-4", "anthropic")
def tool_role(request: Request) -> None:
    request["messages"].append({"role": "tool", "content": "done"})


@_mutant("ANT-5", "anthropic")
def assistant_first(request: Request) -> None:
    request["messages"].insert(0, {"role": "assistant", "content": "Hello."})


@_mutant("ANT-6", "anthropic")
def assistant_last(request: Request) -> None:
    request["messages"].append({"role": "assistant", "content": [{"type": "text", "text": "I"}]})


@_mutant("ANT-7", "anthropic")
def content_is_object(request: Request) -> None:
    request["messages"].append({"role": "user", "content": {"type": "text", "text": "Hello."}})


@_mutant("ANT-7", "anthropic")
def content_is_null(request: Request) -> None:
    request["messages"].append({"role": "user", "content": None})


@_mutant("ANT-7", "anthropic")
def bare_text_among_blocks(request: Request) -> None:
    request["messages"].append({"role": "user", "content": ["Hello."]})


@_mutant("ANT-8", "anthropic")
def empty_user_message(request: Request) -> None:
    request["messages"].append({"role": "user", "content": []})


@_mutant("ANT-8", "anthropic")
def empty_assistant_inside(request: Request) -> None:
    request["messages"] += [{"role": "assistant", "content": []}, {"role": "user", "content": "Go on."}]


@_mutant("ANT-9", "anthropic")
def empty_text_block(request: Request) -> None:
    _say(request, "")


@_mutant("ANT-9", "anthropic")
def blank_assistant_text(request: Request) -> None:
    message = _first(m for m in request["messages"] if m["role"] == "assistant" and isinstance(m["content"], list))
    at = next((i for i, block in enumerate(message["content"]) if block["type"] in ("text", "tool_use")), 0)
    message["content"].insert(at, {"type": "text", "text": "\n\n"})


@_mutant("ANT-9", "anthropic")
def blank_string_content(request: Request) -> None:
    request["messages"].append({"role": "user", "content": "  "})


@_mutant("ANT-9", "anthropic")
def blank_system(request: Request) -> None:
    request["system"] = [{"type": "text", "text": "\t"}]


@_mutant("ANT-9", "anthropic")
def blank_text_in_result(request: Request) -> None:
    _first(_blocks(request, "tool_result"))["content"] = [{"type": "text", "text": ""}]


@_mutant("ANT-10", "anthropic")
def unknown_block(request: Request) -> None:
    _last_user(request).append({"type": "placeholder", "text": "x"})


@_mutant("ANT-10", "anthropic")
def text_without_text(request: Request) -> None:
    _last_user(request).append({"type": "text"})


@_mutant("ANT-10", "anthropic")
def foreign_member_of_block(request: Request) -> None:
    _first(_blocks(request, "text"))["tag"] = 7


@_mutant("ANT-10", "anthropic")
def error_flag_is_text(request: Request) -> None:
    _first(_blocks(request, "tool_result"))["is_error"] = "false"


@_mutant("ANT-11", "anthropic")
def thinking_of_user(request: Request) -> None:
    _last_user(request).append({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"})


@_mutant("ANT-11", "anthropic")
def image_of_assistant(request: Request) -> None:
    message = _first(m for m in request["messages"] if m["role"] == "assistant" and isinstance(m["content"], list))
    message["content"].append({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}})


@_mutant("ANT-12", "anthropic")
def id_with_pipe(request: Request) -> None:
    call, result, _ = _first(_calls(request))
    call["id"] = result["tool_use_id"] = "call_1|fc_1"


@_mutant("ANT-12", "anthropic")
def id_too_long(request: Request) -> None:
    call, result, _ = _first(_calls(request))
    call["id"] = result["tool_use_id"] = "a" * 65


@_mutant("ANT-13", "anthropic")
def id_used_again(request: Request) -> None:
    pairs = _calls(request)
    first, _, home = _first(pairs)
    call, result, _ = _first(pair for pair in pairs if _turn_of(request, pair[2]) != _turn_of(request, home))
    call["id"] = result["tool_use_id"] = first["id"]


def _turn_of(request: Request, message: dict[str, Any]) -> int:
    at = next(i for i, other in enumerate(request["messages"]) if other is message)
    return sum(other["role"] == "assistant" for other in request["messages"][:at])


@_mutant("ANT-14", "anthropic")
def result_lost(request: Request) -> None:
    _, result, message = _first(_calls(request))
    at = next(i for i, block in enumerate(message["content"]) if block is result)
    message["content"][at : at + 1] = [] if len(message["content"]) > 1 else [{"type": "text", "text": "gone"}]


@_mutant("ANT-15", "anthropic")
def call_lost(request: Request) -> None:
    for message in request["messages"]:
        content = message["content"]
        if message["role"] == "assistant" and isinstance(content, list) and len(content) > 1:
            at = next((i for i, block in enumerate(content) if block["type"] == "tool_use"), None)
            if at is not None:
                del content[at]
                return
    raise NotApplicable


@_mutant("ANT-15", "anthropic")
def result_of_nothing(request: Request) -> None:
    _, _, message = _first(_calls(request))
    message["content"].insert(0, {"type": "tool_result", "tool_use_id": "toolu_never", "content": "x"})


@_mutant("ANT-16", "anthropic")
def answered_twice(request: Request) -> None:
    _, result, message = _first(_calls(request))
    message["content"].insert(0, clone(result))


@_mutant("ANT-17", "anthropic")
def text_before_result(request: Request) -> None:
    _, _, message = _first(_calls(request))
    message["content"].insert(0, {"type": "text", "text": "First."})


@_mutant("ANT-18", "anthropic")
def signature_lost(request: Request) -> None:
    del _first(_blocks(request, "thinking"))["signature"]


@_mutant("ANT-18", "anthropic")
def thinking_emptied(request: Request) -> None:
    _first(_blocks(request, "thinking"))["thinking"] = ""


@_mutant("ANT-18", "anthropic")
def redacted_data_emptied(request: Request) -> None:
    _first(_blocks(request, "redacted_thinking"))["data"] = ""


@_mutant("ANT-19", "anthropic")
def thinking_behind_text(request: Request) -> None:
    for message in request["messages"]:
        content = message["content"]
        if message["role"] == "assistant" and isinstance(content, list) and content[0]["type"] == "thinking":
            content.insert(0, {"type": "text", "text": "Well."})
            return
    raise NotApplicable


@_mutant("ANT-19", "anthropic")
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


@_mutant("ANT-31", "anthropic-against")
def old_thinking_reworded(request: Request) -> None:
    at = _round_start(request)
    older = {"messages": request["messages"][:at]}
    _first(_blocks(older, "thinking"))["thinking"] += " And so on."


@_mutant("ANT-32", "anthropic-against")
def running_thinking_lost(request: Request) -> None:
    at = _round_start(request)
    for message in request["messages"][at:]:
        if isinstance(message["content"], list):
            kept = [block for block in message["content"] if block["type"] != "thinking"]
            if kept and len(kept) < len(message["content"]):
                message["content"] = kept
                return
    raise NotApplicable


@_mutant("ANT-20", "anthropic")
def five_marks(request: Request) -> None:
    request["system"] = [{"type": "text", "text": f"Part {n}."} for n in range(5)]
    for block in request["system"]:
        block["cache_control"] = {"type": "ephemeral", "ttl": "1h"}
    for tool in request.get("tools") or []:
        tool.pop("cache_control", None)


@_mutant("ANT-21", "anthropic")
def long_mark_behind_short(request: Request) -> None:
    request["system"] = [
        {"type": "text", "text": "One.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "Two.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ]


@_mutant("ANT-22", "anthropic")
def mark_of_a_day(request: Request) -> None:
    _first(_blocks(request, "text"))["cache_control"] = {"type": "ephemeral", "ttl": "24h"}


@_mutant("ANT-22", "anthropic")
def mark_is_true(request: Request) -> None:
    _first(_blocks(request, "text"))["cache_control"] = True


@_mutant("ANT-23", "anthropic")
def mark_on_thinking(request: Request) -> None:
    _first(_blocks(request, "thinking", "redacted_thinking"))["cache_control"] = {"type": "ephemeral", "ttl": "1h"}


@_mutant("ANT-24", "anthropic")
def image_data_cut(request: Request) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo…[9000 chars]"}
    _last_user(request).append({"type": "image", "source": source})


@_mutant("ANT-24", "anthropic")
def image_of_unknown_media(request: Request) -> None:
    source = {"type": "base64", "media_type": "image/tiff", "data": "AAAA"}
    _last_user(request).append({"type": "image", "source": source})


@_mutant("ANT-25", "anthropic")
def result_is_object(request: Request) -> None:
    _first(_blocks(request, "tool_result"))["content"] = {"output": "x"}


@_mutant("ANT-25", "anthropic")
def thinking_in_result(request: Request) -> None:
    inner = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    _first(_blocks(request, "tool_result"))["content"] = [inner]


@_mutant("ANT-26", "anthropic")
def tool_name_with_space(request: Request) -> None:
    _add_tools(request, _tool("do it"))


@_mutant("ANT-26", "anthropic")
def tool_without_schema(request: Request) -> None:
    _add_tools(request, {"name": "bare"})


@_mutant("ANT-27", "anthropic")
def tool_twice(request: Request) -> None:
    _add_tools(request, _tool("twin"), _tool("twin"))


@_mutant("ANT-28", "anthropic")
def call_name_with_dot(request: Request) -> None:
    _first(_blocks(request, "tool_use"))["name"] = "mcp.read"


@_mutant("ANT-29", "anthropic")
def arguments_as_text(request: Request) -> None:
    _first(_blocks(request, "tool_use"))["input"] = '{"path": "a"}'


@_mutant("ANT-30", "anthropic")
def system_is_object(request: Request) -> None:
    request["system"] = {"type": "text", "text": "Be brief."}


@_mutant("ANT-30", "anthropic")
def image_in_system(request: Request) -> None:
    request["system"] = [{"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}]


def _asking(request: Request) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each assistant message with calls, and where it stands."""
    for at, message in enumerate(request["messages"]):
        if message.get("tool_calls"):
            yield at, message


def _role(request: Request, role: str) -> dict[str, Any]:
    found: dict[str, Any] = _first(message for message in request["messages"] if message["role"] == role)
    return found


def _rename(request: Request, at: int, name: str) -> None:
    """Give the first call of message ``at`` and its result the id ``name``."""
    call = request["messages"][at]["tool_calls"][0]
    for message in request["messages"][at + 1 :]:
        if message.get("tool_call_id") == call["id"]:
            message["tool_call_id"] = name
            break
    call["id"] = name


@_mutant("OAI-1", "openai")
def openai_not_a_number(request: Request) -> None:
    _role(request, "user")["weight"] = float("nan")


@_mutant("OAI-2", "openai")
def openai_half_pair(request: Request) -> None:
    _first(message for message in request["messages"] if isinstance(message["content"], str))["content"] += "\ud800"


@_mutant("OAI-3", "openai")
def openai_no_messages(request: Request) -> None:
    request["messages"] = []


@_mutant("OAI-3", "openai")
def openai_bare_text(request: Request) -> None:
    request["messages"].append("Hello.")


@_mutant("OAI-4", "openai")
def openai_old_function_role(request: Request) -> None:
    request["messages"].append({"role": "function", "name": "read", "content": "x"})


@_mutant("OAI-5", "openai")
def openai_second_system(request: Request) -> None:
    request["messages"].insert(1, {"role": "system", "content": "Be brief."})


@_mutant("OAI-5", "openai")
def openai_late_developer(request: Request) -> None:
    request["messages"] += [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Go on."}]


@_mutant("OAI-6", "openai")
def openai_assistant_last(request: Request) -> None:
    request["messages"].append({"role": "assistant", "content": "I"})


@_mutant("OAI-7", "openai")
def openai_user_without_content(request: Request) -> None:
    request["messages"].append({"role": "user", "content": None})


@_mutant("OAI-7", "openai")
def openai_user_without_parts(request: Request) -> None:
    request["messages"].append({"role": "user", "content": []})


@_mutant("OAI-8", "openai")
def openai_tool_without_content(request: Request) -> None:
    _role(request, "tool")["content"] = None


@_mutant("OAI-8", "openai")
def openai_image_in_result(request: Request) -> None:
    _role(request, "tool")["content"] = [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]


@_mutant("OAI-9", "openai")
def openai_assistant_object(request: Request) -> None:
    _role(request, "assistant")["content"] = {"text": "x"}


@_mutant("OAI-10", "openai")
def openai_assistant_says_nothing(request: Request) -> None:
    request["messages"] += [{"role": "assistant", "content": ""}, {"role": "user", "content": "Go on."}]


@_mutant("OAI-10", "openai")
def openai_assistant_only_reasons(request: Request) -> None:
    silent = {"role": "assistant", "content": None, "reasoning_content": "Hm."}
    request["messages"] += [silent, {"role": "user", "content": "Go on."}]


@_mutant("OAI-11", "openai")
def openai_empty_user(request: Request) -> None:
    request["messages"].append({"role": "user", "content": ""})


@_mutant("OAI-11", "openai")
def openai_blank_part(request: Request) -> None:
    request["messages"].append({"role": "user", "content": [{"type": "text", "text": " "}]})


@_mutant("OAI-12", "openai")
def openai_anthropic_part(request: Request) -> None:
    request["messages"].append({"role": "user", "content": [{"type": "tool_result", "content": "x"}]})


@_mutant("OAI-12", "openai")
def openai_image_emptied(request: Request) -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}
    request["messages"].append({"role": "user", "content": [part]})


@_mutant("OAI-13", "openai")
def openai_no_calls_listed(request: Request) -> None:
    silent = {"role": "assistant", "content": "Done.", "tool_calls": []}
    request["messages"] += [silent, {"role": "user", "content": "Go on."}]


@_mutant("OAI-13", "openai")
def openai_call_without_type(request: Request) -> None:
    _first(_asking(request))[1]["tool_calls"][0].pop("type")


@_mutant("OAI-14", "openai")
def openai_id_too_long(request: Request) -> None:
    _rename(request, _first(_asking(request))[0], "c" * 65)


@_mutant("OAI-14", "openai")
def openai_id_empty(request: Request) -> None:
    _rename(request, _first(_asking(request))[0], "")


@_mutant("OAI-15", "openai")
def openai_id_again(request: Request) -> None:
    rounds = _asking(request)
    _, first = _first(rounds)
    at, _ = _first(rounds)
    _rename(request, at, first["tool_calls"][0]["id"])


@_mutant("OAI-16", "openai")
def openai_arguments_object(request: Request) -> None:
    _first(_asking(request))[1]["tool_calls"][0]["function"]["arguments"] = {"path": "a"}


@_mutant("OAI-16", "openai")
def openai_arguments_cut(request: Request) -> None:
    _first(_asking(request))[1]["tool_calls"][0]["function"]["arguments"] = '{"path": '


@_mutant("OAI-17", "openai")
def openai_result_lost(request: Request) -> None:
    at, _ = _first(_asking(request))
    del request["messages"][at + 1]
    if at + 1 == len(request["messages"]):
        request["messages"].append({"role": "user", "content": "Go on."})


@_mutant("OAI-18", "openai")
def openai_result_of_nothing(request: Request) -> None:
    request["messages"].append({"role": "tool", "tool_call_id": "call_never", "content": "x"})


@_mutant("OAI-18", "openai")
def openai_calls_lost(request: Request) -> None:
    _, message = _first(_asking(request))
    del message["tool_calls"]
    message["content"] = "I read."


@_mutant("OAI-19", "openai")
def openai_answered_twice(request: Request) -> None:
    at, _ = _first(_asking(request))
    request["messages"].insert(at + 1, clone(request["messages"][at + 1]))


@_mutant("OAI-20", "openai")
def openai_call_name_with_dot(request: Request) -> None:
    _first(_asking(request))[1]["tool_calls"][0]["function"]["name"] = "mcp.read"


@_mutant("OAI-21", "openai")
def openai_anthropic_tool(request: Request) -> None:
    _add_tools(request, _tool("read_all"))


@_mutant("OAI-21", "openai")
def openai_parameters_as_text(request: Request) -> None:
    _add_tools(request, {"type": "function", "function": {"name": "texty", "parameters": "{}"}})


@_mutant("OAI-22", "openai")
def openai_tool_twice(request: Request) -> None:
    _add_tools(request, *({"type": "function", "function": {"name": "twin"}} for _ in range(2)))


@_mutant("PI-1", "pi")
def pi_system_role(messages: list[Any]) -> None:
    messages.append({"role": "system", "content": "Be brief."})


@_mutant("PI-2", "pi")
def pi_result_without_call(messages: list[Any]) -> None:
    del _first(message for message in messages if message["role"] == "toolResult")["toolCallId"]


@_mutant("PI-2", "pi")
def pi_assistant_as_text(messages: list[Any]) -> None:
    _first(message for message in messages if message["role"] == "assistant")["content"] = "Done."


@_mutant("PI-3", "pi")
def pi_anthropic_call(messages: list[Any]) -> None:
    said = _first(message for message in messages if message["role"] == "assistant")
    said["content"].append({"type": "tool_use", "id": "toolu_9", "name": "read", "input": {}})


@_mutant("PI-3", "pi")
def pi_arguments_as_text(messages: list[Any]) -> None:
    for message in messages:
        for part in message["content"] if message["role"] == "assistant" else ():
            if part["type"] == "toolCall":
                part["arguments"] = "{}"
                return
    raise NotApplicable


@_mutant("ANT-15", "pi")
def pi_orphan_result(messages: list[Any]) -> None:
    orphan = {"role": "toolResult", "toolCallId": "toolu_never", "toolName": "read", "isError": False}
    after = next((i for i, message in enumerate(messages) if message["role"] == "toolResult"), None)
    if after is None:
        raise NotApplicable
    messages.insert(after, {**orphan, "content": [{"type": "text", "text": "x"}]})


@_mutant("ANT-16", "pi")
def pi_answered_twice(messages: list[Any]) -> None:
    after = next((i for i, message in enumerate(messages) if message["role"] == "toolResult"), None)
    if after is None:
        raise NotApplicable
    messages.insert(after, clone(messages[after]))


@_mutant("ANT-2", "pi")
def pi_half_pair(messages: list[Any]) -> None:
    messages.append({"role": "user", "content": "\udfff half"})


@_mutant("ANT-5", "pi")
def pi_history_begins_with_answer(messages: list[Any]) -> None:
    said = {"role": "assistant", "stopReason": "stop", "content": [{"type": "text", "text": "Hello."}]}
    messages.insert(0, said)


@_mutant("ANT-6", "pi")
def pi_answer_last(messages: list[Any]) -> None:
    messages.append({"role": "assistant", "stopReason": "stop", "content": [{"type": "text", "text": "Bye."}]})

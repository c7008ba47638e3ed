"""Mutants of Chat Completions requests and of Pi messages: ways to break them so that exactly one rule rejects them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .base import clone
from .mutation import Mutants, NotApplicable, Request, add_tools, first, mutant, tool

MUTANTS: Mutants = []


def _asking(request: Request) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each assistant message with calls, and where it stands."""
    for at, message in enumerate(request["messages"]):
        if message.get("tool_calls"):
            yield at, message


def _role(request: Request, role: str) -> dict[str, Any]:
    found: dict[str, Any] = first(message for message in request["messages"] if message["role"] == role)
    return found


def _rename(request: Request, at: int, name: str) -> None:
    """Give the first call of message ``at`` and its result the id ``name``."""
    call = request["messages"][at]["tool_calls"][0]
    for message in request["messages"][at + 1 :]:
        if message.get("tool_call_id") == call["id"]:
            message["tool_call_id"] = name
            break
    call["id"] = name


@mutant(MUTANTS, "OAI-1", "openai")
def openai_not_a_number(request: Request) -> None:
    _role(request, "user")["weight"] = float("nan")


@mutant(MUTANTS, "OAI-2", "openai")
def openai_half_pair(request: Request) -> None:
    first(message for message in request["messages"] if isinstance(message["content"], str))["content"] += "\ud800"


@mutant(MUTANTS, "OAI-3", "openai")
def openai_no_messages(request: Request) -> None:
    request["messages"] = []


@mutant(MUTANTS, "OAI-3", "openai")
def openai_bare_text(request: Request) -> None:
    request["messages"].append("Hello.")


@mutant(MUTANTS, "OAI-4", "openai")
def openai_old_function_role(request: Request) -> None:
    request["messages"].append({"role": "function", "name": "read", "content": "x"})


@mutant(MUTANTS, "OAI-5", "openai")
def openai_second_system(request: Request) -> None:
    request["messages"].insert(1, {"role": "system", "content": "Be brief."})


@mutant(MUTANTS, "OAI-5", "openai")
def openai_late_developer(request: Request) -> None:
    request["messages"] += [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Go on."}]


@mutant(MUTANTS, "OAI-6", "openai")
def openai_assistant_last(request: Request) -> None:
    request["messages"].append({"role": "assistant", "content": "I"})


@mutant(MUTANTS, "OAI-7", "openai")
def openai_user_without_content(request: Request) -> None:
    request["messages"].append({"role": "user", "content": None})


@mutant(MUTANTS, "OAI-7", "openai")
def openai_user_without_parts(request: Request) -> None:
    request["messages"].append({"role": "user", "content": []})


@mutant(MUTANTS, "OAI-8", "openai")
def openai_tool_without_content(request: Request) -> None:
    _role(request, "tool")["content"] = None


@mutant(MUTANTS, "OAI-8", "openai")
def openai_image_in_result(request: Request) -> None:
    _role(request, "tool")["content"] = [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]


@mutant(MUTANTS, "OAI-9", "openai")
def openai_assistant_object(request: Request) -> None:
    _role(request, "assistant")["content"] = {"text": "x"}


@mutant(MUTANTS, "OAI-10", "openai")
def openai_assistant_says_nothing(request: Request) -> None:
    request["messages"] += [{"role": "assistant", "content": ""}, {"role": "user", "content": "Go on."}]


@mutant(MUTANTS, "OAI-10", "openai")
def openai_assistant_only_reasons(request: Request) -> None:
    silent = {"role": "assistant", "content": None, "reasoning_content": "Hm."}
    request["messages"] += [silent, {"role": "user", "content": "Go on."}]


@mutant(MUTANTS, "OAI-11", "openai")
def openai_empty_user(request: Request) -> None:
    request["messages"].append({"role": "user", "content": ""})


@mutant(MUTANTS, "OAI-11", "openai")
def openai_blank_part(request: Request) -> None:
    request["messages"].append({"role": "user", "content": [{"type": "text", "text": " "}]})


@mutant(MUTANTS, "OAI-12", "openai")
def openai_anthropic_part(request: Request) -> None:
    request["messages"].append({"role": "user", "content": [{"type": "tool_result", "content": "x"}]})


@mutant(MUTANTS, "OAI-12", "openai")
def openai_image_emptied(request: Request) -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}
    request["messages"].append({"role": "user", "content": [part]})


@mutant(MUTANTS, "OAI-13", "openai")
def openai_no_calls_listed(request: Request) -> None:
    silent = {"role": "assistant", "content": "Done.", "tool_calls": []}
    request["messages"] += [silent, {"role": "user", "content": "Go on."}]


@mutant(MUTANTS, "OAI-13", "openai")
def openai_call_without_type(request: Request) -> None:
    first(_asking(request))[1]["tool_calls"][0].pop("type")


@mutant(MUTANTS, "OAI-14", "openai")
def openai_id_too_long(request: Request) -> None:
    _rename(request, first(_asking(request))[0], "c" * 65)


@mutant(MUTANTS, "OAI-14", "openai")
def openai_id_empty(request: Request) -> None:
    _rename(request, first(_asking(request))[0], "")


@mutant(MUTANTS, "OAI-15", "openai")
def openai_id_again(request: Request) -> None:
    rounds = _asking(request)
    _, earlier = first(rounds)
    at, _ = first(rounds)
    _rename(request, at, earlier["tool_calls"][0]["id"])


@mutant(MUTANTS, "OAI-16", "openai")
def openai_arguments_object(request: Request) -> None:
    first(_asking(request))[1]["tool_calls"][0]["function"]["arguments"] = {"path": "a"}


@mutant(MUTANTS, "OAI-16", "openai")
def openai_arguments_cut(request: Request) -> None:
    first(_asking(request))[1]["tool_calls"][0]["function"]["arguments"] = '{"path": '


@mutant(MUTANTS, "OAI-17", "openai")
def openai_result_lost(request: Request) -> None:
    at, _ = first(_asking(request))
    del request["messages"][at + 1]
    if at + 1 == len(request["messages"]):
        request["messages"].append({"role": "user", "content": "Go on."})


@mutant(MUTANTS, "OAI-18", "openai")
def openai_result_of_nothing(request: Request) -> None:
    request["messages"].append({"role": "tool", "tool_call_id": "call_never", "content": "x"})


@mutant(MUTANTS, "OAI-18", "openai")
def openai_calls_lost(request: Request) -> None:
    _, message = first(_asking(request))
    del message["tool_calls"]
    message["content"] = "I read."


@mutant(MUTANTS, "OAI-19", "openai")
def openai_answered_twice(request: Request) -> None:
    at, _ = first(_asking(request))
    request["messages"].insert(at + 1, clone(request["messages"][at + 1]))


@mutant(MUTANTS, "OAI-20", "openai")
def openai_call_name_with_dot(request: Request) -> None:
    first(_asking(request))[1]["tool_calls"][0]["function"]["name"] = "mcp.read"


@mutant(MUTANTS, "OAI-21", "openai")
def openai_anthropic_tool(request: Request) -> None:
    add_tools(request, tool("read_all"))


@mutant(MUTANTS, "OAI-21", "openai")
def openai_parameters_as_text(request: Request) -> None:
    add_tools(request, {"type": "function", "function": {"name": "texty", "parameters": "{}"}})


@mutant(MUTANTS, "OAI-22", "openai")
def openai_tool_twice(request: Request) -> None:
    add_tools(request, *({"type": "function", "function": {"name": "twin"}} for _ in range(2)))


@mutant(MUTANTS, "PI-1", "pi")
def pi_system_role(messages: list[Any]) -> None:
    messages.append({"role": "system", "content": "Be brief."})


@mutant(MUTANTS, "PI-2", "pi")
def pi_result_without_call(messages: list[Any]) -> None:
    del first(message for message in messages if message["role"] == "toolResult")["toolCallId"]


@mutant(MUTANTS, "PI-2", "pi")
def pi_assistant_as_text(messages: list[Any]) -> None:
    first(message for message in messages if message["role"] == "assistant")["content"] = "Done."


@mutant(MUTANTS, "PI-3", "pi")
def pi_anthropic_call(messages: list[Any]) -> None:
    said = first(message for message in messages if message["role"] == "assistant")
    said["content"].append({"type": "tool_use", "id": "toolu_9", "name": "read", "input": {}})


@mutant(MUTANTS, "PI-3", "pi")
def pi_arguments_as_text(messages: list[Any]) -> None:
    for message in messages:
        for part in message["content"] if message["role"] == "assistant" else ():
            if part["type"] == "toolCall":
                part["arguments"] = "{}"
                return
    raise NotApplicable


@mutant(MUTANTS, "ANT-15", "pi")
def pi_orphan_result(messages: list[Any]) -> None:
    orphan = {"role": "toolResult", "toolCallId": "toolu_never", "toolName": "read", "isError": False}
    after = next((i for i, message in enumerate(messages) if message["role"] == "toolResult"), None)
    if after is None:
        raise NotApplicable
    messages.insert(after, {**orphan, "content": [{"type": "text", "text": "x"}]})


@mutant(MUTANTS, "ANT-16", "pi")
def pi_answered_twice(messages: list[Any]) -> None:
    after = next((i for i, message in enumerate(messages) if message["role"] == "toolResult"), None)
    if after is None:
        raise NotApplicable
    messages.insert(after, clone(messages[after]))


@mutant(MUTANTS, "ANT-2", "pi")
def pi_half_pair(messages: list[Any]) -> None:
    messages.append({"role": "user", "content": "\udfff half"})


@mutant(MUTANTS, "ANT-5", "pi")
def pi_history_begins_with_answer(messages: list[Any]) -> None:
    said = {"role": "assistant", "stopReason": "stop", "content": [{"type": "text", "text": "Hello."}]}
    messages.insert(0, said)


@mutant(MUTANTS, "ANT-6", "pi")
def pi_answer_last(messages: list[Any]) -> None:
    messages.append({"role": "assistant", "stopReason": "stop", "content": [{"type": "text", "text": "Bye."}]})

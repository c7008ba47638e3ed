"""Mutants of Responses requests: ways to break them so that exactly one rule rejects them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .mutation import Mutants, NotApplicable, Request, add_tools, first, mutant

MUTANTS: Mutants = []
FAMILY = "responses"
BESIDE = "responses-against"


def _of(request: Request, *kinds: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the items of these types, and where they stand."""
    for at, item in enumerate(request["input"]):
        if item.get("type", "message") in kinds:
            yield at, item


def _said(request: Request, role: str) -> dict[str, Any]:
    found: dict[str, Any] = first(item for _, item in _of(request, "message") if item["role"] == role)
    return found


def _parts(request: Request, role: str) -> list[Any]:
    found: list[Any] = first(
        item["content"]
        for _, item in _of(request, "message")
        if item["role"] == role and isinstance(item["content"], list)
    )
    return found


def _rename(request: Request, name: Any) -> None:
    """Give the first function call and its output the id ``name``."""
    _, call = first(_of(request, "function_call"))
    for _, item in _of(request, "function_call_output"):
        if item["call_id"] == call["call_id"]:
            item["call_id"] = name
    call["call_id"] = name


def _add(request: Request, *items: dict[str, Any]) -> None:
    request["input"] += items


@mutant(MUTANTS, "RESP-1", FAMILY)
def responses_not_a_number(request: Request) -> None:
    _said(request, "user")["weight"] = float("inf")


@mutant(MUTANTS, "RESP-2", FAMILY)
def responses_half_pair(request: Request) -> None:
    first(_of(request, "function_call_output"))[1]["output"] = "\ud800"


@mutant(MUTANTS, "RESP-3", FAMILY)
def responses_no_input(request: Request) -> None:
    request["input"] = []


@mutant(MUTANTS, "RESP-3", FAMILY)
def responses_bare_text(request: Request) -> None:
    request["input"].append("Hello.")


@mutant(MUTANTS, "RESP-4", FAMILY)
def responses_anthropic_result(request: Request) -> None:
    _add(request, {"type": "tool_result", "tool_use_id": "x", "content": "x"})


@mutant(MUTANTS, "RESP-4", FAMILY)
def responses_call_without_arguments(request: Request) -> None:
    del first(_of(request, "function_call"))[1]["arguments"]


@mutant(MUTANTS, "RESP-4", FAMILY)
def responses_reasoning_without_summary(request: Request) -> None:
    del first(_of(request, "reasoning"))[1]["summary"]


@mutant(MUTANTS, "RESP-5", FAMILY)
def responses_tool_role(request: Request) -> None:
    _add(request, {"role": "tool", "content": "x"})


@mutant(MUTANTS, "RESP-6", FAMILY)
def responses_no_content(request: Request) -> None:
    _said(request, "user")["content"] = None


@mutant(MUTANTS, "RESP-6", FAMILY)
def responses_emptied_content(request: Request) -> None:
    _said(request, "assistant")["content"] = []


@mutant(MUTANTS, "RESP-7", FAMILY)
def responses_input_text_of_the_assistant(request: Request) -> None:
    _parts(request, "assistant")[0]["type"] = "input_text"


@mutant(MUTANTS, "RESP-7", FAMILY)
def responses_chat_text(request: Request) -> None:
    _parts(request, "user")[0]["type"] = "text"


@mutant(MUTANTS, "RESP-7", FAMILY)
def responses_image_emptied(request: Request) -> None:
    _parts(request, "user").append({"type": "input_image", "image_url": "data:image/png;base64,"})


@mutant(MUTANTS, "RESP-8", FAMILY)
def responses_call_id_too_long(request: Request) -> None:
    _rename(request, "c" * 65)


@mutant(MUTANTS, "RESP-8", FAMILY)
def responses_call_id_with_blank(request: Request) -> None:
    _rename(request, "call 1")


@mutant(MUTANTS, "RESP-9", FAMILY)
def responses_call_id_again(request: Request) -> None:
    at, call = first(_of(request, "function_call"))
    again = {name: value for name, value in call.items() if name != "id"}
    request["input"].insert(at + 1, again)


@mutant(MUTANTS, "RESP-10", FAMILY)
def responses_output_lost(request: Request) -> None:
    at, _ = first(_of(request, "function_call_output"))
    del request["input"][at]


@mutant(MUTANTS, "RESP-11", FAMILY)
def responses_output_of_nothing(request: Request) -> None:
    _add(request, {"type": "function_call_output", "call_id": "call_never", "output": "x"})


@mutant(MUTANTS, "RESP-11", FAMILY)
def responses_call_and_reasoning_lost(request: Request) -> None:
    at, _ = first(_of(request, "function_call"))
    while at and request["input"][at - 1].get("type") == "reasoning":
        at -= 1
    last, _ = first(_of(request, "function_call"))
    del request["input"][at : last + 1]


@mutant(MUTANTS, "RESP-12", FAMILY)
def responses_answered_twice(request: Request) -> None:
    at, output = first(_of(request, "function_call_output"))
    again = {name: value for name, value in output.items() if name != "id"}
    request["input"].insert(at + 1, again)


@mutant(MUTANTS, "RESP-13", FAMILY)
def responses_custom_output_of_a_function(request: Request) -> None:
    first(_of(request, "function_call_output"))[1]["type"] = "custom_tool_call_output"


@mutant(MUTANTS, "RESP-14", FAMILY)
def responses_reasoning_left_alone(request: Request) -> None:
    at, _ = first(_of(request, "reasoning"))
    while request["input"][at].get("type") == "reasoning":
        at += 1
    request["input"].insert(at, {"role": "user", "content": "Wait."})


@mutant(MUTANTS, "RESP-14", FAMILY)
def responses_reasoning_last(request: Request) -> None:
    _add(request, {"type": "reasoning", "summary": [], "encrypted_content": "QQ=="})


@mutant(MUTANTS, "RESP-15", FAMILY)
def responses_item_id_again(request: Request) -> None:
    name = first(item for item in request["input"] if item.get("id"))["id"]
    _add(request, {"type": "message", "id": name, "role": "user", "content": "x"})


@mutant(MUTANTS, "RESP-15", FAMILY)
def responses_item_id_too_long(request: Request) -> None:
    first(item for item in request["input"] if item.get("id"))["id"] = "m" * 65


@mutant(MUTANTS, "RESP-16", FAMILY)
def responses_arguments_object(request: Request) -> None:
    first(_of(request, "function_call"))[1]["arguments"] = {"path": "a"}


@mutant(MUTANTS, "RESP-16", FAMILY)
def responses_arguments_cut(request: Request) -> None:
    first(_of(request, "function_call"))[1]["arguments"] = '{"path": '


@mutant(MUTANTS, "RESP-17", FAMILY)
def responses_output_as_object(request: Request) -> None:
    first(_of(request, "function_call_output"))[1]["output"] = {"content": "x"}


@mutant(MUTANTS, "RESP-17", FAMILY)
def responses_output_of_chat_parts(request: Request) -> None:
    first(_of(request, "function_call_output"))[1]["output"] = [{"type": "text", "text": "x"}]


@mutant(MUTANTS, "RESP-18", FAMILY)
def responses_call_name_with_dot(request: Request) -> None:
    first(_of(request, "function_call"))[1]["name"] = "mcp.read"


@mutant(MUTANTS, "RESP-19", FAMILY)
def responses_chat_tool(request: Request) -> None:
    add_tools(request, {"type": "function", "function": {"name": "read_all"}})


@mutant(MUTANTS, "RESP-19", FAMILY)
def responses_anthropic_tool(request: Request) -> None:
    add_tools(request, {"name": "read_all", "input_schema": {"type": "object"}})


@mutant(MUTANTS, "RESP-20", FAMILY)
def responses_tool_twice(request: Request) -> None:
    add_tools(request, *({"type": "function", "name": "twin"} for _ in range(2)))


@mutant(MUTANTS, "RESP-21", FAMILY)
def responses_instructions_as_list(request: Request) -> None:
    request["instructions"] = [{"type": "input_text", "text": "Be brief."}]


@mutant(MUTANTS, "RESP-22", BESIDE)
def responses_reasoning_edited(request: Request) -> None:
    first(_of(request, "reasoning"))[1]["summary"] = [{"type": "summary_text", "text": "[cleared]"}]


@mutant(MUTANTS, "RESP-23", BESIDE)
def responses_reasoning_lost(request: Request) -> None:
    for at, _ in _of(request, "reasoning"):
        following = request["input"][at + 1]
        if following.get("id") and following["type"] != "reasoning":
            del request["input"][at]
            return
    raise NotApplicable

"""A conversation as a client has it on each of the three wires, and what their providers' rules say of a request."""

from __future__ import annotations

from typing import Any

from checker import anthropic, openai, responses

PATHS = {"anthropic": "/v1/messages", "openai": "/v1/chat/completions", "responses": "/v1/responses"}
MEMBERS = {"anthropic": "messages", "openai": "messages", "responses": "input"}


def function(wire: str) -> dict[str, Any]:
    named = {"name": "run", "description": "runs it"}
    if wire == "anthropic":
        return {**named, "input_schema": {"type": "object", "properties": {}}}
    form = {**named, "parameters": {"type": "object", "properties": {}}}
    return {"type": "function", **form} if wire == "responses" else {"type": "function", "function": form}


def prompt(wire: str, text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "input_text", "text": text}] if wire == "responses" else text}


def answer(wire: str, said: str, ids: list[str], out: str, more: str) -> list[dict[str, Any]]:
    """An answer of the model that makes the calls ``ids``, and their results ``out``; without calls a prompt ``more``.

    All but the results and the prompt is what the model put out.
    """
    if wire == "anthropic":
        used = [{"type": "tool_use", "id": id, "name": "run", "input": {"for": said}} for id in ids]
        back = [{"type": "tool_result", "tool_use_id": id, "content": out} for id in ids]
        message = {"role": "assistant", "content": [{"type": "text", "text": said}, *used]}
        return [message, {"role": "user", "content": back}] if ids else [message, prompt(wire, more)]
    if wire == "openai":
        asked = [{"id": id, "type": "function", "function": {"name": "run", "arguments": "{}"}} for id in ids]
        message = {"role": "assistant", "content": said, **({"tool_calls": asked} if asked else {})}
        results = [{"role": "tool", "tool_call_id": id, "content": out} for id in ids]
        return [message, *(results or [prompt(wire, more)])]
    items = [{"type": "function_call", "call_id": id, "name": "run", "arguments": "{}"} for id in ids]
    outputs = [{"type": "function_call_output", "call_id": id, "output": out} for id in ids]
    message = {"role": "assistant", "content": [{"type": "output_text", "text": said, "annotations": []}]}
    return [message, *items, *(outputs or [prompt(wire, more)])]


def broken(wire: str, body: dict[str, Any]) -> list[Any]:
    if wire == "anthropic":
        return anthropic.check(body)
    if wire == "openai":
        return openai.check({name: body[name] for name in ("messages", "tools") if name in body})
    return responses.check({name: body.get(name) for name in ("input", "tools", "instructions")})


def unmarked(message: dict[str, Any]) -> dict[str, Any]:
    """A message as its provider reads it: no cache mark, and a text for the one block that could carry one."""
    content = message.get("content")
    if isinstance(content, list):
        content = [{name: value for name, value in block.items() if name != "cache_control"} for block in content]
        if [*content[0]] == ["type", "text"] and len(content) == 1 and content[0]["type"] == "text":
            content = content[0]["text"]
    return {**message, "content": content} if content is not None else message

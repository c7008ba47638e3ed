"""OpenAI Chat Completions: what is seen, answers as stream and as JSON, errors in the provider's shape and words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from checker import openai as checker

from .answers import Answer, halves
from .script import Seen, Tool, parse_schema, text_of

OVERFLOW = (
    "This model's maximum context length is {limit} tokens. However, your messages resulted in {used} tokens. "
    "Please reduce the length of the messages."
)
PICTURES = "Too many images in request. Maximum of {most} images is allowed per request, found {count}."


def see(body: dict[str, Any]) -> Seen:
    """Return what the model sees of ``body``."""
    functions = [tool.get("function") or {} for tool in body.get("tools") or []]
    tools = tuple(Tool(each["name"], *parse_schema(each.get("parameters"))) for each in functions if "name" in each)
    texts: list[str] = []
    results: list[str] = []
    everything: list[str] = []
    system: list[str] = []
    for message in body.get("messages") or []:
        role, content = message.get("role"), message.get("content")
        said = content if isinstance(content, str) else "\n".join(str(part.get("text", "")) for part in content or [])
        if role == "assistant":
            texts, results = [], []
            everything += [str(call.get("id")) for call in message.get("tool_calls") or []]
        elif role == "tool":
            results.append(str(message.get("tool_call_id")))
        elif role == "user":
            texts.append(said)
        else:
            system.append(said)
            continue
        everything.append(said)
    return Seen(tools, text_of("\n".join(system)), tuple(texts), tuple(results), "\n".join(everything))


def complaints(body: dict[str, Any]) -> str:
    """Return the first thing the independent checker finds wrong, or nothing."""
    return "; ".join(map(str, checker.check(body)[:3]))


def error(status: int, message: str) -> dict[str, Any]:
    """Return an error body of the provider for an HTTP ``status``."""
    overflow = "maximum context length" in message
    kinds = {400: "invalid_request_error", 429: "rate_limit_exceeded"}
    return {
        "error": {
            "message": message,
            "type": kinds.get(status, "server_error"),
            "param": "messages" if overflow else None,
            "code": "context_length_exceeded" if overflow else None,
        }
    }


def _usage(answer: Answer) -> dict[str, Any]:
    billed = answer.billed
    return {
        "prompt_tokens": billed.total,
        "completion_tokens": answer.output,
        "total_tokens": billed.total + answer.output,
        "prompt_tokens_details": {"cached_tokens": billed.read},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {"id": call, "type": "function", "function": {"name": tool.name, "arguments": json.dumps(arguments)}}
        for call, tool, arguments in answer.calls
    ]


def whole(answer: Answer) -> dict[str, Any]:
    """Return the answer as one JSON body."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.say or None}
    if answer.calls:
        message["tool_calls"] = _calls(answer)
    return {
        "id": f"chatcmpl-{answer.number:04d}",
        "object": "chat.completion",
        "created": 1_800_000_000,
        "model": answer.model,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if answer.calls else "stop"}],
        "usage": _usage(answer),
    }


def stream(answer: Answer) -> Iterator[bytes]:
    """Yield the answer's chunks, the usage in a last one of its own."""

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return _data({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None})

    base = {**whole(answer), "object": "chat.completion.chunk"}
    yield chunk({"role": "assistant", "content": ""})
    if answer.say:
        for piece in halves(answer.say):
            yield chunk({"content": piece})
    for index, call in enumerate(_calls(answer)):
        first, second = halves(call["function"]["arguments"])
        opening = {**call, "index": index, "function": {"name": call["function"]["name"], "arguments": first}}
        yield chunk({"tool_calls": [opening]})
        yield chunk({"tool_calls": [{"index": index, "function": {"arguments": second}}]})
    yield chunk({}, "tool_calls" if answer.calls else "stop")
    yield _data({**base, "choices": []})
    yield b"data: [DONE]\n\n"


def _data(value: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def error_event(message: str) -> bytes:
    """Return an error inside a stream."""
    return _data(error(500, message))

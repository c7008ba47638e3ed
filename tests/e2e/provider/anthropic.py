"""Anthropic Messages: what is seen, answers as stream and as JSON, errors in the provider's shape and words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from checker import anthropic as checker

from .answers import Answer, halves, sse
from .script import Seen, Tool, parse_schema, text_of

OVERFLOW = "prompt is too long: {used} tokens > {limit} maximum"
PICTURES = "Too many images and documents: {count} + 0 > {most}"


def _said_again(message: dict[str, Any]) -> bool:
    """Whether an answer is foldlog's own, a to-do list said again: the model has not answered by it."""
    content = message.get("content")
    ids = [str(block.get("id")) for block in content] if isinstance(content, list) else []
    return bool(ids) and all(id.startswith("foldlog_todo_") for id in ids)


def see(body: dict[str, Any]) -> Seen:
    """Return what the model sees of ``body``."""
    tools = tuple(
        Tool(tool["name"], *parse_schema(tool.get("input_schema")))
        for tool in body.get("tools") or []
        if "name" in tool
    )
    texts: list[str] = []
    results: list[str] = []
    everything: list[str] = []
    for message in body.get("messages") or []:
        if message.get("role") == "assistant" and not _said_again(message):
            texts, results = [], []
        content = message.get("content")
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content or []:
            kind = block.get("type")
            if kind == "tool_result" and message.get("role") == "user":
                results.append(str(block.get("tool_use_id")))
            elif kind == "text" and message.get("role") == "user":
                texts.append(str(block.get("text")))
            everything.append(str(block.get("text")) if kind == "text" else text_of(block))
    return Seen(tools, text_of(body.get("system") or ""), tuple(texts), tuple(results), "\n".join(everything))


def complaints(body: dict[str, Any]) -> str:
    """Return the first thing the independent checker finds wrong, or nothing."""
    found = checker.check(body)
    return "; ".join(map(str, found[:3]))


def error(status: int, message: str) -> dict[str, Any]:
    """Return an error body of the provider for an HTTP ``status``."""
    kinds = {400: "invalid_request_error", 413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error"}
    return {
        "type": "error",
        "error": {"type": kinds.get(status, "api_error"), "message": message},
        "request_id": "req_scripted",
    }


def _blocks(answer: Answer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if answer.think:
        found.append({"type": "thinking", "thinking": answer.think, "signature": answer.signature})
    if answer.say:
        found.append({"type": "text", "text": answer.say})
    for call, tool, arguments in answer.calls:
        found.append({"type": "tool_use", "id": call, "name": tool.name, "input": arguments})
    return found


def _usage(answer: Answer, output: int) -> dict[str, Any]:
    billed = answer.billed
    return {
        "input_tokens": billed.plain,
        "cache_creation_input_tokens": billed.write,
        "cache_read_input_tokens": billed.read,
        "output_tokens": output,
    }


def whole(answer: Answer) -> dict[str, Any]:
    """Return the answer as one JSON body."""
    return {
        "id": f"msg_{answer.number:04d}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": _blocks(answer),
        "stop_reason": "tool_use" if answer.calls else "end_turn",
        "stop_sequence": None,
        "usage": _usage(answer, answer.output),
    }


def stream(answer: Answer) -> Iterator[bytes]:
    """Yield the answer's server-sent events."""
    start = {**whole(answer), "content": [], "stop_reason": None, "usage": _usage(answer, 1)}
    yield sse("message_start", {"type": "message_start", "message": start})
    yield sse("ping", {"type": "ping"})
    for index, block in enumerate(_blocks(answer)):
        empty = {
            "thinking": {"type": "thinking", "thinking": "", "signature": ""},
            "text": {"type": "text", "text": ""},
            "tool_use": {**block, "input": {}},
        }[block["type"]]
        yield sse("content_block_start", {"type": "content_block_start", "index": index, "content_block": empty})
        for delta in _deltas(block):
            yield sse("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta})
        yield sse("content_block_stop", {"type": "content_block_stop", "index": index})
    stop = {"stop_reason": "tool_use" if answer.calls else "end_turn", "stop_sequence": None}
    yield sse("message_delta", {"type": "message_delta", "delta": stop, "usage": {"output_tokens": answer.output}})
    yield sse("message_stop", {"type": "message_stop"})


def _deltas(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if block["type"] == "thinking":
        for piece in halves(block["thinking"]):
            yield {"type": "thinking_delta", "thinking": piece}
        yield {"type": "signature_delta", "signature": block["signature"]}
    elif block["type"] == "text":
        for piece in halves(block["text"]):
            yield {"type": "text_delta", "text": piece}
    else:
        for piece in halves(json.dumps(block["input"])):
            yield {"type": "input_json_delta", "partial_json": piece}


def error_event(message: str) -> bytes:
    """Return an error inside a stream."""
    return sse("error", {"type": "error", "error": {"type": "overloaded_error", "message": message}})

"""OpenAI Responses: what is seen, answers as stream and as JSON, errors in the provider's shape and words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from checker import responses as checker

from .answers import Answer, halves, sse
from .script import Seen, Tool, parse_schema, text_of
from .signing import responses_complaint

OVERFLOW = "Your input exceeds the context window of this model. Please adjust your input and try again."
PICTURES = "Too many images in request. Maximum of {most} images is allowed per request, found {count}."


def items_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the input as a list of items."""
    items = body.get("input")
    if isinstance(items, str):
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": items}]}]
    return [item for item in items or [] if isinstance(item, dict)]


def _tools(body: dict[str, Any]) -> tuple[Tool, ...]:
    found: list[Tool] = []
    for tool in body.get("tools") or []:
        if tool.get("type") == "namespace":
            for inner in tool.get("tools") or []:
                if "name" in inner:
                    found.append(Tool(inner["name"], *parse_schema(inner.get("parameters")), str(tool.get("name"))))
        elif tool.get("type") == "function":
            found.append(Tool(tool["name"], *parse_schema(tool.get("parameters"))))
    return tuple(found)


def see(body: dict[str, Any]) -> Seen:
    """Return what the model sees of ``body``."""
    texts: list[str] = []
    results: list[str] = []
    everything: list[str] = []
    system = [str(body.get("instructions") or "")]
    for item in items_of(body):
        kind = item.get("type") or "message"
        if kind == "message" and item.get("role") == "user":
            texts += [str(part.get("text", "")) for part in _parts(item)]
        elif kind == "message" and item.get("role") in {"developer", "system"}:
            system += [str(part.get("text", "")) for part in _parts(item)]
            continue
        elif kind.endswith("_output"):
            results.append(str(item.get("call_id")))
        else:
            texts, results = [], []
        everything.append("\n".join(str(part.get("text", "")) for part in _parts(item)) or text_of(item))
    return Seen(_tools(body), "\n".join(system), tuple(texts), tuple(results), "\n".join(everything))


def _parts(item: dict[str, Any]) -> list[dict[str, Any]]:
    content = item.get("content")
    if isinstance(content, str):
        return [{"type": "input_text", "text": content}]
    return [part for part in content or [] if isinstance(part, dict)]


def complaints(body: dict[str, Any]) -> str:
    """Return the first things the independent checker finds wrong, or encrypted reasoning that is not ours.

    Reasoning may end the input: Codex sends back what a broken stream gave it.
    """
    end = f"input[{len(items_of(body)) - 1}]"
    found = [each for each in checker.check(body) if (each.rule, each.where) != ("RESP-14", end)]
    return "; ".join(map(str, found[:3])) or responses_complaint(items_of(body))


def error(status: int, message: str) -> dict[str, Any]:
    """Return an error body of the provider for an HTTP ``status``."""
    code = "context_length_exceeded" if message == OVERFLOW else None
    kinds = {400: "invalid_request_error", 429: "rate_limit_exceeded"}
    kind = kinds.get(status, "server_error")
    return {"error": {"message": message, "type": kind, "param": "input" if code else None, "code": code}}


def _items(answer: Answer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if answer.think:
        summary = [{"type": "summary_text", "text": answer.think}]
        found.append(
            {
                "id": f"rs_{answer.number:04d}",
                "type": "reasoning",
                "summary": summary,
                "encrypted_content": answer.signature,
            }
        )
    if answer.say:
        part = {"type": "output_text", "text": answer.say, "annotations": [], "logprobs": []}
        message = {"id": f"msg_{answer.number:04d}", "type": "message", "role": "assistant", "status": "completed"}
        found.append({**message, "content": [part]})
    for index, (call, tool, arguments) in enumerate(answer.calls):
        item = {
            "id": f"fc_{answer.number:04d}_{index}",
            "type": "function_call",
            "status": "completed",
            "name": tool.name,
            "arguments": json.dumps(arguments),
            "call_id": call,
        }
        if tool.namespace:
            item["namespace"] = tool.namespace
        found.append(item)
    return found


def _usage(answer: Answer) -> dict[str, Any]:
    billed = answer.billed
    return {
        "input_tokens": billed.total,
        "input_tokens_details": {"cached_tokens": billed.read},
        "output_tokens": answer.output,
        "output_tokens_details": {"reasoning_tokens": len(answer.think) // 4},
        "total_tokens": billed.total + answer.output,
    }


def whole(answer: Answer) -> dict[str, Any]:
    """Return the answer as one JSON body."""
    return {
        "id": f"resp_{answer.number:04d}",
        "object": "response",
        "created_at": 1_800_000_000,
        "status": "completed",
        "model": answer.model,
        "output": _items(answer),
        "usage": _usage(answer),
        "error": None,
    }


def stream(answer: Answer) -> Iterator[bytes]:
    """Yield the answer's events."""
    number = 0

    def event(kind: str, data: dict[str, Any]) -> bytes:
        nonlocal number
        number += 1
        return sse(kind, {"type": kind, "sequence_number": number, **data})

    opening = {**whole(answer), "status": "in_progress", "output": [], "usage": None}
    yield event("response.created", {"response": opening})
    yield event("response.in_progress", {"response": opening})
    for index, item in enumerate(_items(answer)):
        at = {"output_index": index, "item_id": item["id"]}
        if item["type"] == "function_call":
            yield event("response.output_item.added", {"output_index": index, "item": {**item, "arguments": ""}})
            for piece in halves(item["arguments"]):
                yield event("response.function_call_arguments.delta", {**at, "delta": piece})
            yield event("response.function_call_arguments.done", {**at, "arguments": item["arguments"]})
        elif item["type"] == "message":
            text = item["content"][0]["text"]
            yield event("response.output_item.added", {"output_index": index, "item": {**item, "content": []}})
            part = {"type": "output_text", "text": "", "annotations": []}
            yield event("response.content_part.added", {**at, "content_index": 0, "part": part})
            for piece in halves(text):
                yield event("response.output_text.delta", {**at, "content_index": 0, "delta": piece})
            yield event("response.output_text.done", {**at, "content_index": 0, "text": text})
            yield event("response.content_part.done", {**at, "content_index": 0, "part": item["content"][0]})
        else:
            yield event("response.output_item.added", {"output_index": index, "item": {**item, "summary": []}})
            at["summary_index"] = 0
            text = item["summary"][0]["text"]
            part = {"type": "summary_text", "text": ""}
            yield event("response.reasoning_summary_part.added", {**at, "part": part})
            for piece in halves(text):
                yield event("response.reasoning_summary_text.delta", {**at, "delta": piece})
            yield event("response.reasoning_summary_text.done", {**at, "text": text})
            yield event("response.reasoning_summary_part.done", {**at, "part": {**part, "text": text}})
        yield event("response.output_item.done", {"output_index": index, "item": item})
    yield event("response.completed", {"response": whole(answer)})


def error_event(message: str) -> bytes:
    """Return a failure inside a stream."""
    code = "context_length_exceeded" if message == OVERFLOW else "server_error"
    failed = {"id": "resp_failed", "object": "response", "status": "failed", "output": [], "usage": None}
    failed["error"] = {"code": code, "message": message}
    return sse("response.failed", {"type": "response.failed", "sequence_number": 1, "response": failed})

"""A session recorded on Anthropic's wire as a Responses client would have had it: one item a part."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import msgspec

from foldlog.adapters.traces.model import Trace


def converted(trace: Trace) -> Trace:
    """Return ``trace`` on the Responses wire; every answer keeps its order, every item of an answer has an id."""
    place = 0
    steps = []
    for step in trace.steps:
        made: list[bytes] = []
        for raw in step.messages:
            made += [json.dumps(item).encode() for item in _items(json.loads(raw), place)]
            place += 1
        steps.append(msgspec.structs.replace(step, messages=tuple(made), usage=None))
    return msgspec.structs.replace(
        trace, codec="openai-responses", steps=tuple(steps), tail=(), system=None, tools=None
    )


def _items(message: dict[str, Any], place: int) -> Iterator[dict[str, Any]]:
    role, content = message["role"], message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    said: list[dict[str, Any]] = []
    for index, block in enumerate(blocks):
        kind = block["type"]
        if kind == "tool_result":
            yield {
                "type": "function_call_output",
                "call_id": block["tool_use_id"],
                "output": _output(block.get("content")),
            }
        elif kind == "text" and role == "assistant":
            part = {"type": "output_text", "text": block["text"], "annotations": []}
            yield {"type": "message", "id": _id("msg", place, index), "role": role, "content": [part]}
        elif kind in ("text", "image"):
            said.append(_part(block))
        elif kind in ("thinking", "redacted_thinking") and _followed(blocks[index + 1 :]):
            sealed = block.get("signature") or block.get("data") or "QQ=="
            yield {"type": "reasoning", "id": _id("rs", place, index), "summary": [], "encrypted_content": sealed}
        elif kind == "tool_use":
            call = {
                "type": "function_call",
                "id": _id("fc", place, index),
                "call_id": block["id"],
                "name": block["name"],
            }
            yield {**call, "arguments": json.dumps(block["input"])}
    if said:
        yield {"type": "message", "role": role, "content": said}


def _followed(rest: list[dict[str, Any]]) -> bool:
    return any(block["type"] in ("text", "tool_use") for block in rest)


def _id(prefix: str, place: int, index: int) -> str:
    return f"{prefix}_" + sha256(f"{place}.{index}".encode()).hexdigest()[:24]


def _output(content: Any) -> Any:
    if content is None or isinstance(content, str):
        return content or ""
    return [_part(block) for block in content if block["type"] in ("text", "image")]


def _part(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == "text":
        return {"type": "input_text", "text": block["text"]}
    source = block["source"]
    return {"type": "input_image", "image_url": f"data:{source['media_type']};base64,{source['data']}"}

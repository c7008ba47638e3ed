"""What is said, written in the shape of each codec, with the numbers foldlog will give its parts.

Numbers go, in array order, to text parts that are not blank, to tool results and to files; never to reasoning or calls.
Media inside a tool result share its number (``transform.md`` 2.1, convention 9).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec

from .model import Codec


class Said(msgspec.Struct, frozen=True):
    """A text."""

    text: str


class Thought(msgspec.Struct, frozen=True):
    """Reasoning with the provider's signature."""

    text: str
    signature: str


class Called(msgspec.Struct, frozen=True):
    """A tool call."""

    id: str
    name: str
    input: dict[str, Any]


class Shown(msgspec.Struct, frozen=True):
    """A picture: base64 of a PNG."""

    data: str


class Returned(msgspec.Struct, frozen=True):
    """The result of a call, perhaps with a picture."""

    id: str
    name: str
    text: str
    error: bool = False
    picture: str = ""


class Written(msgspec.Struct, frozen=True):
    """Messages as raw JSON, and the kind of each numbered part in order: ``text``, ``result`` or ``file``."""

    messages: tuple[bytes, ...]
    numbered: tuple[str, ...]


def assistant(codec: Codec, parts: list[Said | Thought | Called], model: str, at: int, usage: Any) -> Written:
    """Write an answer. ``usage`` is Pi's usage object, unused elsewhere."""
    texts = tuple("text" for part in parts if isinstance(part, Said) and part.text.strip())
    if codec == "anthropic":
        return Written((_json({"role": "assistant", "content": [_block(part) for part in parts]}),), texts)
    if codec == "openai-responses":
        return Written(tuple(_json(_item(part)) for part in parts), texts)
    if codec == "pi":
        calls = any(isinstance(part, Called) for part in parts)
        message = {
            "role": "assistant",
            "content": [_pi_block(part) for part in parts],
            "api": "anthropic-messages",
            "provider": "anthropic",
            "model": model,
            "usage": usage,
            "stopReason": "toolUse" if calls else "stop",
            "timestamp": at,
        }
        return Written((_json(message),), texts)
    said = "\n\n".join(part.text for part in parts if isinstance(part, Said))
    message = {"role": "assistant", "content": said or None}
    functions = [
        {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": _json(part.input).decode()}}
        for part in parts
        if isinstance(part, Called)
    ]
    if functions:
        message["tool_calls"] = functions
    return Written((_json(message),), ("text",) if said.strip() else ())


def given(codec: Codec, results: list[Returned], parts: list[Said | Shown], at: int) -> Written:
    """Write what the model gets: the results of its calls, then what a person says."""
    kinds = ["result"] * len(results)
    if codec == "anthropic":
        if not results and len(parts) == 1 and isinstance(parts[0], Said):
            return Written((_json({"role": "user", "content": parts[0].text}),), ("text",))
        content = [_result(result) for result in results] + [_block(part) for part in parts]
        return Written((_json({"role": "user", "content": content}),), (*kinds, *map(_kind, parts)))
    if codec == "openai-responses":
        messages = [_json(_item_output(result)) for result in results]
        if parts:
            content = [_item_part(part) for part in parts]
            messages.append(_json({"type": "message", "role": "user", "content": content}))
        return Written(tuple(messages), (*kinds, *map(_kind, parts)))
    if codec == "pi":
        messages = [_json(_pi_result(result, at)) for result in results]
        if parts:
            blocks = [_pi_block(part) for part in parts]
            messages.append(_json({"role": "user", "content": blocks, "timestamp": at}))
        return Written(tuple(messages), (*kinds, *map(_kind, parts)))
    messages = [_json({"role": "tool", "tool_call_id": one.id, "content": one.text}) for one in results]
    shown = [Shown(one.picture) for one in results if one.picture]
    # a chat tool result is text only: its picture follows in a message of the user (hosts.md 6.2)
    last: list[Said | Shown] = [*([Said("Tool result image:")] if shown else []), *shown, *parts]
    if len(last) == 1 and isinstance(last[0], Said):
        messages.append(_json({"role": "user", "content": last[0].text}))
    elif last:
        messages.append(_json({"role": "user", "content": [_chat_part(part) for part in last]}))
    return Written(tuple(messages), (*kinds, *map(_kind, last)))


def tools(codec: Codec, listed: Sequence[tuple[str, str, dict[str, Any]]]) -> bytes:
    """Write the tool list: name, description and JSON schema of each."""
    if codec == "openai-chat":
        return _json(
            [
                {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}
                for name, about, schema in listed
            ]
        )
    if codec == "openai-responses":
        flat = ({"type": "function", "name": name, "description": about, "parameters": s} for name, about, s in listed)
        return _json(list(flat))
    key = "input_schema" if codec == "anthropic" else "parameters"
    return _json([{"name": name, "description": about, key: schema} for name, about, schema in listed])


def answer(codec: Codec, messages: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return the answer that a request's new messages begin with."""
    if codec != "openai-responses":
        return messages[:1]
    heads = (msgspec.json.decode(raw) for raw in messages)
    ours = (item["type"].endswith("_output") or item.get("role") == "user" for item in heads)
    return messages[: next((index for index, own in enumerate(ours) if own), len(messages))]


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)


def _kind(part: Said | Shown) -> str:
    return "text" if isinstance(part, Said) else "file"


def _block(part: Said | Thought | Called | Shown) -> dict[str, Any]:
    if isinstance(part, Said):
        return {"type": "text", "text": part.text}
    if isinstance(part, Thought):
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}
    if isinstance(part, Called):
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": part.input}
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": part.data}}


def _result(result: Returned) -> dict[str, Any]:
    content: Any = result.text
    if result.picture:
        content = [{"type": "text", "text": result.text}, _block(Shown(result.picture))]
    return {"type": "tool_result", "tool_use_id": result.id, "content": content, "is_error": result.error}


def _pi_block(part: Said | Thought | Called | Shown) -> dict[str, Any]:
    if isinstance(part, Said):
        return {"type": "text", "text": part.text}
    if isinstance(part, Thought):
        return {"type": "thinking", "thinking": part.text, "thinkingSignature": part.signature}
    if isinstance(part, Called):
        return {"type": "toolCall", "id": part.id, "name": part.name, "arguments": part.input}
    return {"type": "image", "data": part.data, "mimeType": "image/png"}


def _pi_result(result: Returned, at: int) -> dict[str, Any]:
    content = [_pi_block(Said(result.text or "(no output)"))]
    if result.picture:
        content.append(_pi_block(Shown(result.picture)))
    return {
        "role": "toolResult",
        "toolCallId": result.id,
        "toolName": result.name,
        "content": content,
        "isError": result.error,
        "timestamp": at,
    }


def _item(part: Said | Thought | Called) -> dict[str, Any]:
    """One item of an answer; its id is made of what it holds, since an id never changes."""
    if isinstance(part, Said):
        content = [{"type": "output_text", "text": part.text, "annotations": []}]
        id = _item_id("msg_", part.text)
        return {"type": "message", "id": id, "status": "completed", "role": "assistant", "content": content}
    if isinstance(part, Thought):
        summary = [{"type": "summary_text", "text": part.text}]
        return {
            "type": "reasoning",
            "id": _item_id("rs_", part.signature),
            "summary": summary,
            "encrypted_content": part.signature,
        }
    given = _json(part.input).decode()
    id = part.id.replace("call_", "fc_", 1)
    return {
        "type": "function_call",
        "id": id,
        "status": "completed",
        "call_id": part.id,
        "name": part.name,
        "arguments": given,
    }


def _item_id(prefix: str, text: str) -> str:
    return prefix + sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _item_output(result: Returned) -> dict[str, Any]:
    output: Any = result.text
    if result.picture:
        output = [_item_part(Said(result.text)), _item_part(Shown(result.picture))]
    return {"type": "function_call_output", "call_id": result.id, "output": output}


def _item_part(part: Said | Shown) -> dict[str, Any]:
    if isinstance(part, Said):
        return {"type": "input_text", "text": part.text}
    return {"type": "input_image", "image_url": "data:image/png;base64," + part.data}


def _chat_part(part: Said | Shown) -> dict[str, Any]:
    if isinstance(part, Said):
        return {"type": "text", "text": part.text}
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + part.data}}

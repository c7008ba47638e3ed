"""What a host's decoded message consists of: one unit a part, in part order, for each codec.

This order *is* the part numbering that edits name; it is fixed by the wire version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....domain.errors import MessageError, OptionError
from ....domain.transcript import Role
from . import opencode, responses
from .forms import as_blocks, plain_block, unmark
from .unit import Kind, Layout, Unit, check_name, unknown_role

CODECS = ("anthropic", "openai-chat", "pi", "opencode", responses.CODEC)

_ANTHROPIC: dict[str, Kind] = {
    "text": "text",
    "tool_use": "call",
    "tool_result": "result",
    "thinking": "thinking",
    "redacted_thinking": "thinking",
    "image": "media",
    "document": "media",
}
_OPENAI: dict[str, Kind] = {
    "text": "text",
    "image_url": "media",
    "input_audio": "media",
    "file": "media",
    "refusal": "other",
}
_PI: dict[str, Kind] = {"text": "text", "image": "media", "thinking": "thinking", "toolCall": "call"}
_PI_PERSONS = ("user", "custom", "developer", "hookMessage")
"""Roles whose content is text and images; the last two are OMP's."""
_OPENAI_OTHERS = ("refusal", "function_call", "audio")
_REASONING = ("reasoning_content", "reasoning")
_RESULT_IDS = {"anthropic": "tool_use_id", "openai-chat": "tool_call_id", "pi": "toolCallId"}

MEDIA = frozenset({"image", "document", "image_url", "input_audio", "file"})
"""Types of blocks inside a tool result that are media."""


def layout(codec: str, message: Any, where: str) -> Layout:
    """Return the layout of a decoded message.

    Raises ``MessageError`` for an unknown role, content of a wrong type, a block without a type, a call or result
    without an id; ``OptionError`` for an unknown codec.
    """
    if codec not in CODECS:
        raise OptionError(f"there is no codec of this name; there are {', '.join(CODECS)}", value=codec, where="codec")
    if not isinstance(message, dict):
        raise MessageError("a message must be a JSON object", value=message, where=where)
    if codec == "opencode":
        return opencode.layout(message, where)
    if codec == responses.CODEC:
        return responses.layout(message, where)
    said = message.get("role")
    if not isinstance(said, str):
        raise MessageError("a message must have a role", value=said, where=f"{where}.role")
    return _READERS[codec](message, said, where)


def _items(content: Any, kinds: dict[str, Kind], where: str) -> list[Unit]:
    if isinstance(content, str):
        return [Unit("text", content, "string")]
    if not isinstance(content, list):
        raise MessageError("content must be a string or a list of blocks", value=content, where=f"{where}.content")
    out: list[Unit] = []
    for i, block in enumerate(content):
        kind = _block_kind(block, kinds, where, i)
        out.append(Unit(kind, block, "item", i))
    return out


def _block_kind(block: Any, kinds: dict[str, Kind], where: str, i: int) -> Kind:
    if not isinstance(block, dict):
        raise MessageError("a content block must be a JSON object", value=block, where=f"{where}.content[{i}]")
    given = block.get("type")
    if not isinstance(given, str):
        raise MessageError("a content block must have a type", value=given, where=f"{where}.content[{i}].type")
    kind = kinds.get(given, "other")
    if kind == "text":
        if not isinstance(block.get("text"), str):
            raise MessageError("a text block must hold text", value=block, where=f"{where}.content[{i}].text")
    elif kind == "call":
        check_name(block.get("id"), "the id of a tool call", f"{where}.content[{i}].id")
        check_name(block.get("name"), "the name of a called tool", f"{where}.content[{i}].name")
    elif kind == "result":
        check_name(block.get("tool_use_id"), "the call id of a tool result", f"{where}.content[{i}].tool_use_id")
        _output(block.get("content"), f"{where}.content[{i}]")
    elif kind == "thinking" and not isinstance(block.get("thinking", ""), str):
        raise MessageError("thinking must be a string", value=block["thinking"], where=f"{where}.content[{i}].thinking")
    return kind


def _output(content: Any, where: str) -> None:
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, list):
        raise MessageError("output must be a string or a list of blocks", value=content, where=f"{where}.content")
    for i, block in enumerate(content):
        place = f"{where}.content[{i}]"
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise MessageError("a block of a tool's output must have a type", value=block, where=place)
        if block["type"] == "text" and not isinstance(block.get("text"), str):
            raise MessageError("a text block must hold text", value=block, where=f"{place}.text")


def _anthropic(message: dict[str, Any], said: str, where: str) -> Layout:
    if said not in ("user", "assistant", "system"):
        raise unknown_role(said, "user, assistant and system", f"{where}.role")
    role: Role = "user" if said == "user" else "assistant" if said == "assistant" else "system"
    return Layout(role, said, _items(message.get("content"), _ANTHROPIC, where))


def _openai(message: dict[str, Any], said: str, where: str) -> Layout:
    content = message.get("content")
    name = message.get("name")
    members = {"name": name} if name is not None else None
    if said == "tool":
        check_name(message.get("tool_call_id"), "the call id of a tool result", f"{where}.tool_call_id")
        _output(content, where)
        return Layout("tool", said, [Unit("result", message, "message")], members)
    if said in ("system", "developer"):
        return Layout("system", said, _items(content, {"text": "text"}, where), members)
    if said == "user":
        return Layout("user", said, _items(content, _OPENAI, where), members)
    if said != "assistant":
        raise unknown_role(said, "system, developer, user, assistant and tool", f"{where}.role")
    out: list[Unit] = []
    for key in _REASONING:
        if isinstance(message.get(key), str):
            out.append(Unit("thinking", message[key], "member", 0, key))
    if isinstance(message.get("reasoning_details"), list):
        out.append(Unit("thinking", message["reasoning_details"], "member", 0, "reasoning_details"))
    if content is not None:
        out.extend(_items(content, _OPENAI, where))
    for key in _OPENAI_OTHERS:
        if message.get(key) is not None:
            out.append(Unit("other", message[key], "member", 0, key))
    calls = message.get("tool_calls")
    if calls is not None:
        if not isinstance(calls, list):
            raise MessageError("tool_calls must be a list", value=calls, where=f"{where}.tool_calls")
        for i, call in enumerate(calls):
            place = f"{where}.tool_calls[{i}]"
            if not isinstance(call, dict):
                raise MessageError("a tool call must be a JSON object", value=call, where=place)
            check_name(call.get("id"), "the id of a tool call", f"{place}.id")
            body = call.get("custom" if call.get("type") == "custom" else "function")
            if not isinstance(body, dict):
                raise MessageError("a tool call must name its function", value=call, where=place)
            check_name(body.get("name"), "the name of a called tool", f"{place}.function.name")
            out.append(Unit("call", call, "call", i))
    return Layout("assistant", said, out, members)


def _pi(message: dict[str, Any], said: str, where: str) -> Layout:
    content = message.get("content")
    if said == "assistant":
        stop = message.get("stopReason")
        members = {"stopReason": stop} if stop is not None else None
        return Layout("assistant", said, _items(content, _PI, where), members)
    if said in _PI_PERSONS:
        return Layout("user", said, _items(content, {"text": "text", "image": "media"}, where))
    if said == "toolResult":
        check_name(message.get("toolCallId"), "the call id of a tool result", f"{where}.toolCallId")
        _output(content, where)
        return Layout("tool", said, [Unit("result", message, "message")])
    if said == "system":
        return Layout("system", said, _items(content, {"text": "text"}, where))
    # bashExecution, branchSummary and the like; extensions of the host may have roles of their own
    return Layout("user", said, [Unit("other", message, "message")])


_READERS: dict[str, Callable[[dict[str, Any], str, str], Layout]] = {
    "anthropic": _anthropic,
    "openai-chat": _openai,
    "pi": _pi,
}


def identity_value(unit: Unit, codec: str) -> Any:
    """Return the value whose canonical JSON identifies the unit: no marks, strings as text blocks, no bookkeeping."""
    value = unit.value
    if codec == "opencode":
        return opencode.identity_value(unit)
    if unit.at == "string":
        return {"text": value, "type": "text"}
    if codec == responses.CODEC:
        return responses.identity_value(unit)
    if unit.at == "member":
        return {"type": unit.key, "value": value}
    if unit.at == "message":
        if unit.kind == "result":
            return _result_value(value, codec)
        return {k: v for k, v in value.items() if k != "timestamp"}
    if codec == "anthropic":
        return plain_block(value)
    value = unmark(value)
    if "partialJson" in value:  # Pi keeps the stream's scratch text on a call; no provider sees it
        value = {k: v for k, v in value.items() if k != "partialJson"}
    return value


def _result_value(message: dict[str, Any], codec: str) -> dict[str, Any]:
    out: dict[str, Any] = {"type": "tool_result"}
    if "content" in message:
        out["content"] = as_blocks(message["content"])
    for key in ("tool_call_id",) if codec == "openai-chat" else ("toolCallId", "toolName", "isError"):
        if key in message:
            out[key] = message[key]
    return out


def arguments(unit: Unit, codec: str) -> Any:
    """Return what a call hands to its tool: a JSON string on ``openai-chat``, else the decoded value."""
    if codec == "anthropic":
        return unit.value.get("input")
    if codec == "pi":
        return unit.value.get("arguments")
    if codec == responses.CODEC:
        return responses.arguments(unit.value)
    if unit.value.get("type") == "custom":
        return unit.value["custom"].get("input")
    return unit.value["function"].get("arguments")


def call_name(unit: Unit, codec: str) -> str:
    """Return the name of the called tool."""
    value = unit.value
    if codec == responses.CODEC:
        return responses.call_name(value)
    if codec == "openai-chat":
        return str((value["custom"] if value.get("type") == "custom" else value["function"])["name"])
    return str(value["name"])


def pair_id(unit: Unit, codec: str) -> str:
    """Return the id that pairs a call with its result."""
    if codec == responses.CODEC:
        return responses.pair_id(unit.value)
    return str(unit.value["id" if unit.kind == "call" else _RESULT_IDS[codec]])


def output_blocks(unit: Unit, codec: str) -> Any:
    """Return the content of a result: a string, a list of blocks, or None."""
    return responses.output_blocks(unit.value) if codec == responses.CODEC else unit.value.get("content")

"""Items of the OpenAI Responses API: one item of ``input`` is one message (``hosts.md`` 6.3, ``specs/view.md``).

A message item has a part for each block of its content; every other item is one part, the item itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....domain.errors import MessageError
from ....domain.transcript import Role
from .forms import quote
from .media import media_tokens
from .unit import Kind, Layout, Unit, check_name

CODEC = "openai-responses"

_ROLES: Mapping[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}
_CONTENT: dict[str, Kind] = {
    "input_text": "text",
    "output_text": "text",
    "text": "text",
    "input_image": "media",
    "input_file": "media",
    "input_audio": "media",
    "computer_screenshot": "media",
}
CALLS: Mapping[str, tuple[str, str]] = {
    "function_call": ("", "arguments"),
    "custom_tool_call": ("", "input"),
    "local_shell_call": ("local_shell", "action"),
    "shell_call": ("shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
    "computer_call": ("computer", "action"),
    "tool_search_call": ("tool_search", "arguments"),
    "mcp_approval_request": ("", "arguments"),
}
"""Items the client answers: the tool's name where the item has none, the member that holds what it is given."""
OUTPUTS: Mapping[str, str] = {
    "function_call_output": "output",
    "custom_tool_call_output": "output",
    "local_shell_call_output": "output",
    "shell_call_output": "output",
    "apply_patch_call_output": "output",
    "computer_call_output": "output",
    "tool_search_output": "tools",
    "mcp_approval_response": "reason",
}
"""The answers, and the member that holds what the tool gave."""
WRITTEN = frozenset(
    {"function_call_output", "custom_tool_call_output", "local_shell_call_output", "apply_patch_call_output"}
)
"""Outputs that are texts, or lists of blocks: those that can show a tag and hold a placeholder."""
_MADE = frozenset(
    {"web_search_call", "file_search_call", "image_generation_call", "code_interpreter_call", "mcp_call"}
    | {"mcp_list_tools", *CALLS}
)
"""Items a model's answer holds. Those the provider runs itself hold their own result."""
DEEP = frozenset({"content", "output"})
"""Members an edit can reach into."""
_OWN_ID = {"mcp_approval_request": "id", "mcp_approval_response": "approval_request_id"}
_BOOKKEEPING = frozenset({"id", "status", "internal_chat_message_metadata_passthrough"})
_PIXEL = b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_SAME = {"input_text": "text", "output_text": "text", "input_image": "image_url", "computer_screenshot": "image_url"}
_SAME["input_file"] = "file"


def layout(item: dict[str, Any], where: str) -> Layout:
    """Return the layout of an item. Raises ``MessageError``: no type and no role, content of a wrong type, no call id.

    An item of an unknown type is one other part; so is what the provider runs itself, and an answer without an id.
    """
    kind = item.get("type")
    if kind is None and "role" in item:
        kind = "message"
    if kind is None and isinstance(item.get("id"), str):
        kind = "item_reference"
    if not isinstance(kind, str):
        raise MessageError("an item must have a type", value=kind, where=f"{where}.type")
    if kind == "message":
        return _message(item, where)
    if kind == "reasoning":
        _check_reasoning(item, where)
        return Layout("assistant", kind, [Unit("thinking", item, "message")])
    part: Kind = "other"
    if kind in CALLS or kind in OUTPUTS:
        part = _paired(item, kind, where)
    role: Role = "assistant" if kind in _MADE else "tool" if part == "result" else "other"
    return Layout(role, kind, [Unit(part, item, "message")])


def _message(item: dict[str, Any], where: str) -> Layout:
    said = item.get("role")
    if not isinstance(said, str):
        raise MessageError("a message must have a role", value=said, where=f"{where}.role")
    members = {k: v for k, v in item.items() if k not in _BOOKKEEPING and v is not None}
    for key in ("type", "role", "content"):
        members.pop(key, None)
    if said not in _ROLES:
        return Layout("other", said, [Unit("other", item, "message")])
    return Layout(_ROLES[said], said, _content(item.get("content"), where), members or None)


def _content(content: Any, where: str) -> list[Unit]:
    if isinstance(content, str):
        return [Unit("text", content, "string")]
    if not isinstance(content, list):
        raise MessageError("content must be a string or a list of blocks", value=content, where=f"{where}.content")
    out: list[Unit] = []
    for i, block in enumerate(content):
        _check_block(block, "a content block", f"{where}.content[{i}]")
        out.append(Unit(_CONTENT.get(block["type"], "other"), block, "item", i))
    return out


def _check_block(block: Any, what: str, where: str) -> None:
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        raise MessageError(f"{what} must have a type", value=block, where=where)
    if _CONTENT.get(block["type"]) == "text" and not isinstance(block.get("text"), str):
        raise MessageError("a text block must hold text", value=block, where=f"{where}.text")


def _check_reasoning(item: dict[str, Any], where: str) -> None:
    for key in ("summary", "content"):
        blocks = item.get(key)
        if blocks is not None and not isinstance(blocks, list):
            raise MessageError("reasoning must hold a list of texts", value=blocks, where=f"{where}.{key}")
        for block in blocks or ():
            if not isinstance(block, dict) or not isinstance(block.get("text", ""), str):
                raise MessageError("reasoning must hold texts", value=block, where=f"{where}.{key}")


def _paired(item: dict[str, Any], kind: str, where: str) -> Kind:
    key = _id_member(item)
    if key is None and kind not in ("function_call", "custom_tool_call", "function_call_output"):
        return "other"  # run by the provider, which pairs them itself
    key = key or "call_id"
    if kind in CALLS:
        check_name(item.get(key), "the id of a tool call", f"{where}.{key}")
        if not CALLS[kind][0]:
            check_name(item.get("name"), "the name of a called tool", f"{where}.name")
        return "call"
    check_name(item.get(key), "the call id of a tool result", f"{where}.{key}")
    if kind in WRITTEN:
        _check_output(item.get("output"), f"{where}.output")
    return "result"


def _id_member(item: dict[str, Any]) -> str | None:
    """Return the member whose value pairs a call with its output: ``call_id``, or the ``id`` where that stands in."""
    kind = item.get("type")
    own = _OWN_ID.get(str(kind))
    if own is not None:
        return own
    if item.get("call_id") is not None:
        return "call_id"
    return "id" if kind in ("local_shell_call", "local_shell_call_output") and "id" in item else None


def _check_output(output: Any, where: str) -> None:
    if output is None or isinstance(output, str):
        return
    if not isinstance(output, list):
        raise MessageError("output must be a string or a list of blocks", value=output, where=where)
    for i, block in enumerate(output):
        _check_block(block, "a block of a tool's output", f"{where}[{i}]")


# ------------------------------------------------------------------------------ identity


def identity_value(unit: Unit) -> Any:
    """Return what identifies a part: ids, states and absent members apart, one name for texts (``json-forms.md``)."""
    value = unit.value
    if unit.at == "item":
        return _plain(value)
    kind = value.get("type")
    stay = {k: v for k, v in value.items() if v is not None and k not in _BOOKKEEPING}
    if unit.kind == "other" or (kind == "reasoning" and not value.get("encrypted_content")):
        stay.update({k: v for k, v in value.items() if k == "id"})  # the provider's own copy stands behind the id
    if kind in _OWN_ID or _id_member(value) == "id":
        stay.update({k: v for k, v in value.items() if k == "id"})
    if kind == "apply_patch_call_output" and "status" in value:
        stay["status"] = value["status"]  # here it says whether the patch went in
    output = stay.get("output")
    if kind in WRITTEN and isinstance(output, str | list):
        blocks = [{"text": output, "type": "text"}] if isinstance(output, str) else output
        stay["output"] = [_plain(block) for block in blocks]
    return stay


def _plain(block: dict[str, Any]) -> dict[str, Any]:
    if _CONTENT.get(block["type"]) != "text":
        return block
    out = {k: v for k, v in block.items() if not (k in ("annotations", "logprobs") and not v)}
    out["type"] = "text"
    return out


# ------------------------------------------------------------------------ what items hold


def arguments(item: dict[str, Any]) -> Any:
    """Return what a call hands to its tool: a string (JSON, or free text for a custom tool), else the decoded value."""
    return item.get(CALLS[item["type"]][1])


def call_name(item: dict[str, Any]) -> str:
    """Return the name of the called tool."""
    return CALLS[item["type"]][0] or str(item["name"])


def pair_id(item: dict[str, Any]) -> str:
    """Return the id that a call and its output share."""
    return str(item[_id_member(item) or "call_id"])


def output_blocks(item: dict[str, Any]) -> Any:
    """Return an output as a string, None, or a list of blocks of types ``text``, ``image_url``, ``file`` and others."""
    output = item.get(OUTPUTS[item["type"]])
    if output is None or isinstance(output, str):
        return output
    if isinstance(output, dict):
        output = [output]
    if not isinstance(output, list):
        return None
    return [_neutral(block) for block in output]


def _neutral(block: Any) -> dict[str, Any]:
    if not isinstance(block, dict):
        return {"type": "value", "value": block}
    kind = block.get("type")
    if not isinstance(kind, str):
        streams = [block.get("stdout"), block.get("stderr")]
        return {"type": "text", "text": "\n".join(s for s in streams if isinstance(s, str) and s)}
    same = {**block, "type": _SAME[kind]} if kind in _SAME else block
    odd = same["type"] == "text" and not isinstance(same.get("text"), str)
    return {"type": "value", "value": block} if odd else same


def reasoning_text(item: dict[str, Any]) -> str:
    """Return the readable text of a reasoning item: its content, else its summary."""
    for key in ("content", "summary"):
        texts = [block["text"] for block in item.get(key) or () if "text" in block]
        if texts:
            return "\n".join(texts)
    return ""


def hidden(item: dict[str, Any]) -> int:
    """Return the size of a reasoning item's encrypted content in bytes, 0 where it has none."""
    sealed = item.get("encrypted_content")
    return len(sealed) if isinstance(sealed, str) else 0


def opaque(item: dict[str, Any]) -> int | None:
    """Return the tokens of an item that holds no words to count: a picture made, an encrypted summary; else None."""
    if item.get("type") == "image_generation_call":
        return media_tokens({"data": item.get("result")}, len)
    return hidden(item) * 3 // 16 if hidden(item) else None


# ------------------------------------------------------------------ what foldlog writes


def text_item(role: str, text: str) -> bytes:
    """Return a message item of one text."""
    return b'{"type":"message","role":"' + role.encode() + b'","content":[' + text_block(role, text) + b"]}"


def text_block(role: str, text: str) -> bytes:
    """Return a text block of a message item of this role."""
    kind = b"output_text" if role == "assistant" else b"input_text"
    return b'{"type":"' + kind + b'","text":' + quote(text) + b"}"


def arc_items(call: bytes, name: bytes, given: str, output: str) -> tuple[bytes, bytes]:
    """Return a call and its output, without ids of their own: so they need no reasoning (``hosts.md`` 6.3)."""
    return (
        b'{"type":"function_call","call_id":%b,"name":%b,"arguments":%b}' % (call, name, quote(given)),
        b'{"type":"function_call_output","call_id":%b,"output":%b}' % (call, quote(output)),
    )


def stand_in(item: dict[str, Any], text: str, *, only_media: bool = False) -> bytes | None:
    """Return what stands for an output that is no text, None where it stays: a screenshot becomes one blank pixel."""
    kind = item["type"]
    if kind == "computer_call_output":
        return b'{"type":"computer_screenshot","image_url":"data:image/png;base64,' + _PIXEL + b'"}'
    if only_media:
        return None
    if kind == "shell_call_output":
        return b'[{"stdout":' + quote(text) + b',"stderr":"","outcome":{"type":"exit","exit_code":0}}]'
    return b"[]" if kind == "tool_search_output" else None


# ------------------------------------------------------------------------------- tools


def spoken(tool: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return (name, name for a comparison, description) of a tool and of those a namespace holds.

    A tool the provider runs has no name; it is compared by its label or type.
    """
    name, description = tool.get("name"), tool.get("description")
    own = name if isinstance(name, str) else ""
    about = description if isinstance(description, str) else ""
    label = own or str(tool.get("server_label") or tool.get("type") or "")
    inner = tool.get("tools")
    held = [one for one in inner if isinstance(one, dict)] if isinstance(inner, list) else []
    below = [(a, f"{label}/{b}", c) for one in held for a, b, c in spoken(one)]
    return [("" if held else own, label, about), *below]

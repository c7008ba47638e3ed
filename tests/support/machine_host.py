"""The host of the state machine: a plain list of messages, and what it hands over in each codec.

A message is neutral here: ``{"uid", "role", "parts", "id"}`` (``id``: the host's own, or ``""``). Two messages are the
same to the model where role, parts and id are.
"""

from __future__ import annotations

import json
from typing import Any

Message = dict[str, Any]
Part = dict[str, Any]
Round = list[Message]

PREFIXES = (("", False, False), ("§3§ ", True, True), ("§7§ §8§ ", True, True), ("§9: ", True, False))
"""What a text may begin with, and whether that is taken off a text and off a tool's output (VIEW-2)."""
BODIES = (
    "ok",
    "Look at the failing test and mend it. ",
    "é ñ 漢字 🙂 \u2028 ",
    "<|endoftext|> </session-history> ",
    "[dropped §2§]",
    "(no content)",
    'a "quoted" \\ path\n\tand a line\r\n',
    "def f(x):\n    return x  # line of a file\n" * 8,
    "0123456789 log line of a long test run\n" * 30,
    "",
    " \n\t",
)
BLANKS = (9, 10)
_TEXTS = ("text", "input_text", "output_text")
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
NAMES = ("bash", "read_file", "ctx_reduce")
MUTE = ("openai-chat", "openai-responses")
"""On these wires a result cannot say that its call failed: none does, or equal messages would not be the same."""


def count(text: str) -> int:
    """Count tokens cheaply: the machine is not about tokenizers."""
    return (len(text) + 3) // 4


def text(body: int, uid: str, prefix: int = 0) -> Part:
    """Return a text part; ``uid`` makes it unlike all others (``""``: a text that may come again)."""
    words = BODIES[body % len(BODIES)]
    return {
        "t": "text",
        "pre": prefix % len(PREFIXES) if words.strip() else 0,
        "s": words + uid if words.strip() else words,
    }


def result(call: str, body: int, uid: str, prefix: int = 0, media: int = 0, error: bool = False) -> Part:
    """Return a tool result."""
    words = BODIES[body % len(BODIES)]
    return {
        "t": "result",
        "id": call,
        "pre": prefix % len(PREFIXES) if words.strip() else 0,
        "s": words + uid if words.strip() else "",
        "media": media,
        "err": error,
    }


def written(part: Part) -> str:
    """Return a text or output as the host writes it."""
    return PREFIXES[part["pre"]][0] + part["s"]


def stripped(part: Part) -> str:
    """Return a text or output without the tag notation foldlog takes off before it writes its own."""
    notation, of_text, of_result = PREFIXES[part["pre"]]
    taken = of_text if part["t"] == "text" else of_result
    return part["s"] if taken else notation + part["s"]


def blank(part: Part) -> bool:
    """Whether a part is a text without a visible character."""
    return part["t"] == "text" and not part["s"].strip()


def same(a: Message, b: Message) -> bool:
    """Whether two messages are the same content to a host."""
    return bool(a["role"] == b["role"] and a["parts"] == b["parts"] and a["id"] == b["id"])


def rewritten(before: list[Message], now: list[Message]) -> set[str]:
    """Return which of ``before`` have other content in ``now``: by their names, or by the call they answer in place.

    Each is a revision, and so is its way back, whatever became of the request between: by then nothing is left of the
    edits its old content had (design.md 2, law 3; TAG-5).
    """
    named = {item["uid"]: item for item in now}
    found = {item["uid"] for item in before if not same(named.get(item["uid"], item), item)}
    pairs = zip(before, now, strict=False)
    return found | {a["uid"] for a, b in pairs if _kin(a, b) and not same(a, b)}


def _kin(a: Message, b: Message) -> bool:
    first, second = a["parts"][0], b["parts"][0]
    return a["role"] == b["role"] and "id" in first and first["id"] == second.get("id")


def to_host(codec: str, message: Message, form: int) -> Message:
    """Return the message as the host hands it over. ``form`` bit 0: one text as a string; bit 1: with a cache mark."""
    out = _FORMS[codec](message, form)
    if message["id"]:
        out["id"] = message["id"]
    return out


def _anthropic(message: Message, form: int) -> Message:
    blocks = [_block(part) for part in message["parts"]]
    if form & 1 and len(blocks) == 1 and blocks[0]["type"] == "text":
        return {"role": message["role"], "content": blocks[0]["text"]}
    if form & 2 and blocks and blocks[-1]["type"] != "thinking" and not blank(message["parts"][-1]):
        blocks[-1]["cache_control"] = {"type": "ephemeral"}
    return {"role": message["role"], "content": blocks}


def _block(part: Part) -> dict[str, Any]:
    kind = part["t"]
    if kind == "text":
        return {"type": "text", "text": written(part)}
    if kind == "call":
        return {"type": "tool_use", "id": part["id"], "name": part["name"], "input": part["args"]}
    if kind == "think":
        return {"type": "thinking", "thinking": part["s"], **({"signature": part["sig"]} if part["sig"] else {})}
    if kind == "media":
        return _image()
    content: Any = written(part)
    if part["media"]:
        content = [*([{"type": "text", "text": content}] if content else []), _image()]
    out = {"type": "tool_result", "tool_use_id": part["id"], "content": content}
    return {**out, "is_error": True} if part["err"] else out


def _image() -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}


def _openai(message: Message, form: int) -> Message:
    first = message["parts"][0]
    if message["role"] == "tool":
        return {"role": "tool", "tool_call_id": first["id"], "content": written(first)}
    said: list[dict[str, Any]] = []
    for part in message["parts"]:
        if part["t"] == "text":
            said.append({"type": "text", "text": written(part)})
        elif part["t"] == "media":
            said.append({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}})
    content: Any = said or None
    if len(said) == 1 and "text" in said[0] and not form & 1:
        content = said[0]["text"]
    out: Message = {"role": message["role"], "content": content}
    calls = [part for part in message["parts"] if part["t"] == "call"]
    if calls:
        out["tool_calls"] = [
            {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": json.dumps(c["args"])}}
            for c in calls
        ]
    return out


def _pi(message: Message, form: int) -> Message:
    parts = message["parts"]
    if message["role"] == "tool":
        first = parts[0]
        content = [{"type": "text", "text": written(first)}]
        if first["media"]:
            content.append({"type": "image", "data": PICTURE, "mimeType": "image/png"})
        return {
            "role": "toolResult",
            "toolCallId": first["id"],
            "toolName": "bash",
            "content": content,
            "isError": first["err"],
            "timestamp": 1,
        }
    blocks: list[dict[str, Any]] = []
    for part in parts:
        if part["t"] == "text":
            blocks.append({"type": "text", "text": written(part)})
        elif part["t"] == "think":
            blocks.append({"type": "thinking", "thinking": part["s"], "thinkingSignature": part["sig"]})
        elif part["t"] == "call":
            blocks.append({"type": "toolCall", "id": part["id"], "name": part["name"], "arguments": part["args"]})
        else:
            blocks.append({"type": "image", "data": PICTURE, "mimeType": "image/png"})
    content2: Any = blocks
    if message["role"] == "user" and form & 1 and len(blocks) == 1 and "text" in blocks[0]:
        content2 = blocks[0]["text"]
    out = {"role": message["role"], "content": content2, "timestamp": 1}
    return {**out, "stopReason": "stop"} if message["role"] == "assistant" else out


def _responses(message: Message, form: int) -> Message:
    """Return an item; ``form`` bit 0: one text as a string, bit 1: without the item's own id."""
    first = message["parts"][0]
    name = {} if form & 2 else {"id": f"item_{message['uid'][1:]}"}
    if first["t"] == "think":
        return {"type": "reasoning", **name, "summary": _summary(first["s"]), "encrypted_content": first["sig"]}
    if first["t"] == "call":
        given = json.dumps(first["args"])
        return {"type": "function_call", **name, "call_id": first["id"], "name": first["name"], "arguments": given}
    if first["t"] == "result":
        output: Any = written(first)
        if first["media"]:
            output = [*([{"type": "input_text", "text": output}] if output else []), _input_image()]
        return {"type": "function_call_output", **name, "call_id": first["id"], "output": output}
    parts = message["parts"]
    if form & 1 and len(parts) == 1 and first["t"] == "text":
        return {"type": "message", **name, "role": message["role"], "content": written(first)}
    kind = "output_text" if message["role"] == "assistant" else "input_text"
    content = [{"type": kind, "text": written(p)} if p["t"] == "text" else _input_image() for p in parts]
    return {"type": "message", **name, "role": message["role"], "content": content}


def _summary(said: str) -> list[dict[str, Any]]:
    return [{"type": "summary_text", "text": said}]


def _input_image() -> dict[str, Any]:
    return {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"}


_FORMS = {"anthropic": _anthropic, "openai-chat": _openai, "pi": _pi, "openai-responses": _responses}


# ------------------------------------------------------------------------ reading the wire


def seen(codec: str, wire: Message) -> list[tuple[Any, ...]]:
    """Return the parts of one wire message: ``text``, s; ``call``, id, name, args; ``result``, id, texts, media."""
    content = wire.get("content")
    if wire.get("type") == "reasoning":
        return [("think", wire["summary"][0]["text"])]
    if wire.get("type") == "function_call":
        return [("call", wire["call_id"], wire["name"], json.loads(wire["arguments"]))]
    if wire.get("type") == "function_call_output":
        return [("result", wire["call_id"], _texts(wire["output"]), _media(wire["output"]))]
    if codec == "openai-chat" and wire["role"] == "tool":
        return [("result", wire["tool_call_id"], _texts(content), 0)]
    if codec == "pi" and wire["role"] == "toolResult":
        return [("result", wire["toolCallId"], _texts(content), _media(content))]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    out = [_seen(block) for block in blocks]
    for call in wire.get("tool_calls", ()):
        out.append(("call", call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])))
    return out


def _seen(block: dict[str, Any]) -> tuple[Any, ...]:
    kind = block["type"]
    if kind in _TEXTS:
        return "text", block["text"]
    if kind in ("tool_use", "toolCall"):
        return "call", block["id"], block["name"], block["input" if kind == "tool_use" else "arguments"]
    if kind == "tool_result":
        return "result", block["tool_use_id"], _texts(block.get("content")), _media(block.get("content"))
    if kind == "thinking":
        return "think", block["thinking"]
    return (kind if kind not in ("image", "image_url", "input_image") else "media",)


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content or () if block["type"] in _TEXTS]


def _media(content: Any) -> int:
    return 0 if isinstance(content, str) else sum(block["type"] not in _TEXTS for block in content or ())

"""Message arrays (OpenAI chat, Anthropic, Pi) in JSON or JSONL, and mini-swe logs of chat messages."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from . import anthropic, pi
from .model import Codec, Skipped, Trace
from .parse import Line, blocks_of, decode, items, millis, split, text_of, usage
from .rounds import Ignored, Record, pair, starting_with_input, to_trace

_SENT = (
    "role",
    "content",
    "name",
    "tool_calls",
    "tool_call_id",
    "function_call",
    "refusal",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "thinking_blocks",
    "provider_specific_fields",
    "audio",
)
"""Members of a chat message that go to a provider; a recorder's own (response, timestamp, returncode …) do not."""

_INPUTS = ("user", "system", "developer")
_ANTHROPIC_BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking", "document")


def codec_of(messages: list[Any], frame: dict[str, Any]) -> Codec:
    """Tell whose shape an array of messages has; a bare array of plain texts counts as OpenAI chat."""
    chat = anthropic_signs = 0
    for message in messages:
        if pi.is_message(message):
            return "pi"
        if not isinstance(message, dict):
            continue
        types = {block.get("type") for block in blocks_of(message.get("content"))}
        chat += message.get("role") in ("system", "developer", "tool") or "tool_calls" in message
        chat += "image_url" in types
        anthropic_signs += not types.isdisjoint(_ANTHROPIC_BLOCKS)
        anthropic_signs += any(isinstance(block.get("source"), dict) for block in blocks_of(message.get("content")))
    tools = blocks_of(frame.get("tools"))
    anthropic_signs += "system" in frame or any("input_schema" in tool for tool in tools)
    chat += any("function" in tool for tool in tools)
    if chat == anthropic_signs:
        return "anthropic" if text_of(frame.get("model")).startswith("claude") else "openai-chat"
    return "anthropic" if anthropic_signs > chat else "openai-chat"


def load_rows(name: str, rows: list[Line], skipped: list[Skipped]) -> Trace:
    """Read JSONL with one message a line, bare or under ``message``."""
    ignored: Counter[str] = Counter()
    found: list[tuple[int, bytes]] = []
    for row in rows:
        if "role" in row.value:
            found.append((row.number, row.raw))
        elif isinstance(row.value.get("message"), dict):
            found.append((row.number, split(row.raw)["message"]))
        else:
            ignored[f"line of type {text_of(row.value.get('type'))[:40] or 'none'}"] += 1
    return _load(name, found, {}, skipped, ignored)


def load_frame(name: str, raw: bytes, skipped: list[Skipped], ignored: Ignored | None = None) -> Trace:
    """Read one JSON text: an array of messages, or an object with ``messages``, ``system`` and ``tools``."""
    frame = split(raw)
    messages = items(frame["messages"] if frame else raw)
    return _load(name, list(enumerate(messages, 1)), frame, skipped, Counter() if ignored is None else ignored)


def _load(
    name: str, found: list[tuple[int, bytes]], frame: dict[str, bytes], skipped: list[Skipped], ignored: Ignored
) -> Trace:
    values = [decode(raw) for _, raw in found]
    outer: dict[str, Any] = {key: decode(frame[key]) for key in ("model", "tools", "system") if key in frame}
    codec = codec_of(values, outer)
    records: list[Record] = []
    for (line, raw), value in zip(found, values, strict=True):
        if not isinstance(value, dict) or not isinstance(value.get("role"), str):
            skipped.append(Skipped(line, "not a message: it has no role"))
        elif codec == "pi":
            one = pi.record_of(raw, value, line, None, skipped, ignored)
            records += [one] if one else []
        elif codec == "anthropic":
            records += _anthropic(raw, value, line, skipped, ignored)
        else:
            records += _chat(raw, value, line, skipped, ignored)
    fallback = text_of(outer.get("model"))
    for record in records:
        record.model = record.model or fallback
    if codec == "pi":
        trace = pi.assemble(name, records, skipped, ignored)
    elif codec == "anthropic":
        arranged = anthropic.arrange(records, anthropic.NO_RESULT, ignored, drop_last=True)
        trace = to_trace(name, codec, arranged, skipped=skipped, ignored=ignored)
    else:
        begun = records if any(record.kind == "said" for record in records) else []
        paired = pair(starting_with_input(begun, ignored), _close, ignored, unique=False, drop_last=True)
        trace = to_trace(name, codec, paired, skipped=skipped, ignored=ignored)
    system = frame.get("system") if outer.get("system") else None
    tools = frame.get("tools") if outer.get("tools") else None
    return msgspec.structs.replace(trace, system=system, tools=tools)


def _anthropic(raw: bytes, value: dict[str, Any], line: int, skipped: list[Skipped], ignored: Ignored) -> list[Record]:
    role, body = value["role"], split(raw).get("content", b"")
    at = millis(value.get("timestamp"))
    if role not in ("user", "assistant"):
        ignored[f"message of role {role[:40]}"] += 1
        return []
    if not isinstance(value.get("content"), str | list):
        skipped.append(Skipped(line, "the message has no content"))
        return []
    if role == "user":
        return anthropic.spoken(body, ignored, line=line, at=at)
    blocks, text = anthropic.content(body)
    record = anthropic.answer(
        "answer",
        blocks,
        ignored,
        text=text,
        line=line,
        at=at,
        model=text_of(value.get("model")),
        usage=usage(value.get("usage")),
    )
    return [record] if record else []


def _chat(raw: bytes, value: dict[str, Any], line: int, skipped: list[Skipped], ignored: Ignored) -> list[Record]:
    role, content = value["role"], value.get("content")
    at = millis(value.get("timestamp"))
    if any(key not in _SENT for key in value):
        fields = split(raw)
        kept = (msgspec.json.encode(key) + b":" + member for key, member in fields.items() if key in _SENT)
        raw = b"{" + b",".join(kept) + b"}"
    if role == "tool":
        return [Record("result", line, at, raw, of=text_of(value.get("tool_call_id")))]
    if role in _INPUTS:
        if not isinstance(content, str | list):
            skipped.append(Skipped(line, "the message has no content"))
            return []
        return [Record("said", line, at, raw)]
    if role != "assistant":
        ignored[f"message of role {role[:40]}"] += 1
        return []
    calls = blocks_of(value.get("tool_calls"))
    says = content.strip() if isinstance(content, str) else content
    if not (says or calls or value.get("function_call") or value.get("refusal")):
        ignored["answer with nothing left"] += 1
        return []
    found = value.get("response")
    response: dict[str, Any] = found if isinstance(found, dict) else {}
    ids = tuple(text_of(call.get("id")) for call in calls)
    model = text_of(response.get("model")) or text_of(value.get("model"))
    counted = usage(response.get("usage")) or usage(value.get("usage"))
    asked = millis(response.get("created")) or at
    return [Record("answer", line, asked, raw, calls=ids, model=model, usage=counted)]


def _close(record: Record, call: str) -> Record:
    message = {"role": "tool", "tool_call_id": call, "content": anthropic.NO_RESULT}
    return Record("result", record.line, record.at, msgspec.json.encode(message), of=call)

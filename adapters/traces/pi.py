"""Pi session logs (version-1 entries) and arrays of Pi's AgentMessages; messages keep Pi's shape."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from .anthropic import NO_RESULT
from .model import Skipped, Trace
from .parse import Line, blocks_of, items, millis, split, text_of, usage
from .rounds import Ignored, Record, pair, starting_with_input, to_trace

INPUTS = ("user", "bashExecution", "custom", "branchSummary")
"""Roles that Pi turns into input of the model."""

ROLES = (*INPUTS, "assistant", "toolResult", "compactionSummary")


def is_message(message: Any) -> bool:
    """Whether a message bears a sign that only Pi writes."""
    if not isinstance(message, dict):
        return False
    if message.get("role") in ROLES and message.get("role") not in ("user", "assistant"):
        return True
    types = [block.get("type") for block in blocks_of(message.get("content"))]
    return "stopReason" in message or "toolCall" in types


def load(name: str, rows: list[Line], skipped: list[Skipped]) -> Trace:
    """Read session entries in file order; compactions of the host are skipped (convention 23)."""
    ignored: Counter[str] = Counter()
    records: list[Record] = []
    for row in rows:
        kind = text_of(row.value.get("type"))
        if kind == "compaction":
            ignored["host compaction"] += 1
        elif kind != "message":
            ignored[f"line of type {kind[:40] or 'none'}"] += 1
        else:
            raw = split(row.raw).get("message", b"")
            record = record_of(raw, row.value.get("message"), row.number, row.value.get("timestamp"), skipped, ignored)
            if record is not None:
                records.append(record)
    return assemble(name, records, skipped, ignored)


def assemble(name: str, records: list[Record], skipped: list[Skipped], ignored: Ignored) -> Trace:
    """Pair and cut records of Pi messages."""
    paired = pair(starting_with_input(records, ignored), _close, ignored, unique=True, drop_last=False)
    return to_trace(name, "pi", paired, skipped=skipped, ignored=ignored)


def record_of(
    raw: bytes, message: Any, line: int, stamp: Any, skipped: list[Skipped], ignored: Ignored
) -> Record | None:
    """Return what one message contributes; None (with a count or a name) if it contributes nothing."""
    if not isinstance(message, dict):
        skipped.append(Skipped(line, "the entry has no message"))
        return None
    at = millis(stamp) or millis(message.get("timestamp"))
    role = message.get("role")
    if role == "toolResult":
        return Record("result", line, at, raw, of=text_of(message.get("toolCallId")))
    if role in INPUTS:
        return Record("said", line, at, raw)
    if role != "assistant":
        compacted = role == "compactionSummary"
        ignored["host compaction" if compacted else f"message of role {text_of(role)[:40] or 'none'}"] += 1
        return None
    if message.get("stopReason") in ("aborted", "error"):
        ignored[f"turn {message['stopReason']}"] += 1
        return None
    return _answer(raw, message, line, at, ignored)


def _answer(raw: bytes, message: dict[str, Any], line: int, at: int, ignored: Ignored) -> Record | None:
    blocks = blocks_of(message.get("content"))
    blank = [block.get("type") == "text" and not text_of(block.get("text")).strip() for block in blocks]
    left = [block for block, drop in zip(blocks, blank, strict=True) if not drop]
    ignored["blank text"] += sum(blank)
    if all(block.get("type") == "thinking" for block in left):
        ignored["answer with nothing left"] += 1
        return None
    if any(blank):
        fields = split(raw)
        kept = [one for one, drop in zip(items(fields["content"]), blank, strict=True) if not drop]
        fields["content"] = b"[" + b",".join(kept) + b"]"
        raw = b"{" + b",".join(msgspec.json.encode(key) + b":" + value for key, value in fields.items()) + b"}"
    calls = tuple(text_of(block.get("id")) for block in left if block.get("type") == "toolCall")
    model = text_of(message.get("model"))
    return Record("answer", line, at, raw, calls=calls, model=model, usage=usage(message.get("usage")))


def _close(record: Record, call: str) -> Record:
    """Pi's own closing of a call that has no result (``hosts.md`` 6.1 rule 5)."""
    blocks = msgspec.json.decode(record.raw)["content"]
    name = next((text_of(block.get("name")) for block in blocks if block.get("id") == call), "")
    message = {
        "role": "toolResult",
        "toolCallId": call,
        "toolName": name,
        "content": [{"type": "text", "text": NO_RESULT}],
        "isError": True,
        "timestamp": record.at,
    }
    return Record("result", record.line, record.at, msgspec.json.encode(message), of=call)

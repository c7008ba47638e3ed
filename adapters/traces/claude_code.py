"""Claude Code session logs: lines of ``user``, ``assistant`` and ``system``, one response over several lines."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from .anthropic import INTERRUPTED, answer, arrange, content, spoken
from .model import Skipped, Trace, Usage
from .parse import Line, millis, split, text_of, usage
from .rounds import Record, to_trace

_BOUNDARIES = ("compact_boundary", "microcompact_boundary")


class _Response(msgspec.Struct):
    """The lines of one response, gathered at the place of the first of them."""

    line: int
    at: int
    model: str
    host: bool
    blocks: list[bytes]
    text: bytes
    usage: Usage | None


def matches(value: dict[str, Any]) -> bool:
    """Whether a line is one of this format's messages."""
    return value.get("type") in ("user", "assistant") and isinstance(value.get("message"), dict)


def load(name: str, rows: list[Line], skipped: list[Skipped]) -> Trace:
    """Read the rows in file order (convention 23); the raw requests follow convention 24."""
    ignored: Counter[str] = Counter()
    order: list[_Response | Line] = []
    responses: dict[str, _Response] = {}
    seen: set[str] = set()
    for row in rows:
        value = row.value
        reason = _reason(value)
        uuid = text_of(value.get("uuid"))
        if not reason and uuid and uuid in seen:
            reason = "line recorded twice"
        if reason:
            ignored[reason] += 1
            continue
        seen.add(uuid)
        fields = split(split(row.raw)["message"])
        if not isinstance(value["message"].get("content"), str | list):
            skipped.append(Skipped(row.number, "the message has no content"))
            continue
        if value["type"] == "user":
            order.append(row)
            continue
        message = value["message"]
        blocks, text = content(fields["content"])
        key = text_of(message.get("id")) or f"line {row.number}"
        response = responses.get(key)
        if response is None:
            host = message.get("model") == "<synthetic>"
            model = text_of(message.get("model"))
            at = millis(value.get("timestamp"))
            response = _Response(row.number, at, model, host, [], text, None)
            responses[key] = response
            order.append(response)
        response.blocks += blocks
        response.usage = usage(message.get("usage")) or response.usage
    records: list[Record] = []
    for entry in order:
        if isinstance(entry, Line):
            body = split(split(entry.raw)["message"])["content"]
            records += spoken(body, ignored, line=entry.number, at=millis(entry.value.get("timestamp")))
            continue
        if entry.host:
            ignored["message made by the host"] += 1
        record = answer(
            "host" if entry.host else "answer",
            entry.blocks,
            ignored,
            text=entry.text,
            line=entry.line,
            at=entry.at,
            model=entry.model,
            usage=entry.usage,
        )
        if record is not None:
            records.append(record)
    arranged = arrange(records, INTERRUPTED, ignored)
    return to_trace(name, "anthropic", arranged, skipped=skipped, ignored=ignored)


def _reason(value: dict[str, Any]) -> str:
    """Why the host would not send this line, or "" if it would."""
    kind = text_of(value.get("type"))
    if value.get("isSidechain"):
        return "sidechain"
    if value.get("isCompactSummary"):
        return "host compaction summary"
    if kind == "system":
        return "host compaction" if value.get("subtype") in _BOUNDARIES else "system line"
    if kind not in ("user", "assistant"):
        return f"line of type {kind[:40] or 'none'}"
    if not isinstance(value.get("message"), dict):
        return "line without a message"
    if value.get("isApiErrorMessage"):
        return "provider error"
    return ""

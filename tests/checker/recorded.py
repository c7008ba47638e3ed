"""The raw recorded requests of the benchmark traces (``specs/provider-rules.md`` part 4), by its own small reader.

Each recorded model call gives one request: what the host would have sent, built up message by message. Messages are
shared between the requests of a trace and must not be changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import pi
from .base import is_blank

NAMES = (
    "claude-code-a-opus46.jsonl",
    "claude-code-b-sonnet45.jsonl",
    "mini-swe-a-sqlfluff-deepseek.jsonl",
    "pi-a-opus45.jsonl",
)


@dataclass(frozen=True, slots=True)
class Call:
    """One recorded model call: ``number`` from 1, the ``family`` of its wire, and the ``request`` as raw JSON objects.

    ``outcome`` is ``answered``, ``aborted``, ``error`` or ``local`` (an answer the host made up without a provider).
    ``agent_messages`` are Pi's own messages before this call, empty for other hosts.
    """

    trace: str
    number: int
    family: str
    request: dict[str, Any]
    outcome: str = "answered"
    agent_messages: tuple[dict[str, Any], ...] = ()


def calls(path: Path) -> Iterator[Call]:
    """Yield the recorded calls of a trace file in file order. The format is told by the first line with a message."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    if any(row.get("format", "").startswith("mini-swe") for row in rows[:1]):
        return _mini_swe(path.stem, rows)
    if rows and rows[0].get("type") == "session":
        return _pi(path.stem, rows)
    return _claude_code(path.stem, rows)


def _claude_code(trace: str, rows: list[dict[str, Any]]) -> Iterator[Call]:
    answers: dict[str, list[dict[str, Any]]] = {}  # one response spans lines that need not be adjacent
    order: list[tuple[str, dict[str, Any]]] = []
    for row in rows:
        message: dict[str, Any] = row.get("message") or {}
        if row.get("type") not in ("user", "assistant") or row.get("isSidechain") or row.get("isCompactSummary"):
            continue
        if row["type"] == "assistant" and message["id"] in answers:
            answers[message["id"]] += message["content"]
            continue
        if row["type"] == "assistant":
            answers[message["id"]] = list(message["content"])
        order.append((row["type"], row))
    wire: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    number = 0
    for kind, row in order:
        message = row["message"]
        if kind == "user":
            for block in _blocks(message["content"]):
                (results if block["type"] == "tool_result" else others).append(block)
            continue
        if results or others:  # the host sends one user message, results first
            wire.append({"role": "user", "content": [*results, *others]})
            results, others = [], []
        number += 1
        outcome = "error" if row.get("isApiErrorMessage") else "answered"
        if outcome == "answered" and message.get("model") == "<synthetic>":
            outcome = "local"
        request = {"model": message.get("model"), "messages": list(wire)}
        yield Call(trace, number, "anthropic", request, outcome)
        content = _blocks(answers[message["id"]])
        if content and outcome != "error":
            wire.append({"role": "assistant", "content": content})


def _blocks(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return [block for block in content if block["type"] != "text" or not is_blank(block["text"])]


def _pi(trace: str, rows: list[dict[str, Any]]) -> Iterator[Call]:
    state = pi.Converter()
    wire: list[dict[str, Any]] = []
    agent: list[dict[str, Any]] = []
    number = 0
    for row in rows:
        if row.get("type") != "message":  # the host's own compactions are skipped
            continue
        message = row["message"]
        if message["role"] == "assistant":
            number += 1
            wire += state.close()
            reason = message["stopReason"]
            request = {"model": message.get("model"), "messages": list(wire)}
            outcome = reason if reason in ("aborted", "error") else "answered"
            yield Call(trace, number, "anthropic", request, outcome, tuple(agent))
        wire += state.take(message)
        agent.append(message)


def _mini_swe(trace: str, rows: list[dict[str, Any]]) -> Iterator[Call]:
    sent = ("role", "content", "tool_calls", "tool_call_id")
    wire: list[dict[str, Any]] = []
    number = 0
    for row in rows:
        message: dict[str, Any] = row.get("message") or {}
        if row.get("type") != "message" or message["role"] not in ("system", "user", "assistant", "tool"):
            continue
        if message["role"] == "assistant":
            number += 1
            model = message.get("response", {}).get("model")
            yield Call(trace, number, "openai", {"model": model, "messages": list(wire)})
        wire.append({name: message[name] for name in sent if name in message})

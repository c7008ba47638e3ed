"""Calls a client makes beside the conversation: titles, topics, probes, suggestions, its own compaction.

Told by how a request is built where that says enough (no tools, one token of output), else by the words clients are
known to use, which stand in one table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..body import Body
from .base import Kind, small
from .events import decoded, listed, table, text

SYSTEM_WORDS: tuple[tuple[str, Kind, str], ...] = (
    ("You are a title generator", "helper", "OpenCode asks for a title"),
    ("You are a helpful AI assistant tasked with summarizing conversations", "compaction", "the client compacts"),
    ("You are a context summarization", "compaction", "OpenCode compacts"),
    ("You are an anchored context summarization", "compaction", "OpenCode compacts"),
    ("Analyze if this message indicates a new conversation topic", "helper", "Claude Code asks for the topic"),
    ("Summarize this coding conversation in under 50 characters", "helper", "Claude Code asks for a title"),
    ("Generate a concise, sentence-case title", "helper", "Claude Code asks for a title"),
    ("Generate a short title", "helper", "the client asks for a title"),
)
"""How the system text of a helper call without tools begins or goes on: words, kind, why."""
LAST_WORDS: tuple[tuple[str, Kind, str], ...] = (
    ("CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.", "compaction", "Claude Code compacts"),
    ("Your task is to create a detailed summary of the conversation so far", "compaction", "Claude Code compacts"),
    ("[SUGGESTION MODE:", "helper", "Claude Code asks for a suggestion"),
    ("Generate a title for this conversation:", "helper", "OpenCode asks for a title"),
    ("Please write a 5-10 word title", "helper", "Claude Code asks for a title"),
)
"""How the last text of a helper call begins, whatever tools it carries: a client keeps them for its cache's sake."""
CONTINUED = "This session is being continued from a previous conversation"
"""How Claude Code's first message begins after it compacted: the history was rewritten."""
PROBE_TOKENS = 1
"""A request for this much output is a probe: of the quota, of the key, of a warm cache."""


def anthropic(body: Body) -> tuple[Kind, str] | tuple[None, str]:
    """Say whether a Messages request is a helper call (``helper`` or ``compaction``), and by which sign."""
    return _told(body, "max_tokens", _system_texts(body.members.get("system", b"")))


def chat(body: Body) -> tuple[Kind, str] | tuple[None, str]:
    """Say whether a Chat Completions request is a helper call, and by which sign."""
    texts = last_texts(body.messages[:1]) if body.messages and b'"user"' not in body.messages[0][:40] else []
    output = "max_completion_tokens" if "max_completion_tokens" in body.members else "max_tokens"
    return _told(body, output, texts)


def _told(body: Body, output: str, system: list[str]) -> tuple[Kind, str] | tuple[None, str]:
    given = small(body, output) if output in body.members else None
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= PROBE_TOKENS:
        return "helper", "a probe: it asks for no answer"
    for said in last_texts(body.messages[-2:]):
        for words, kind, why in LAST_WORDS:
            if said.startswith(words):
                return kind, why
    if not _tools(body):
        for said in system:
            for words, kind, why in SYSTEM_WORDS:
                if words in said[:400]:
                    return kind, why
    return None, ""


def _tools(body: Body) -> bool:
    return "tools" in body.arrays and bool(body.arrays["tools"].items)


def last_texts(messages: Sequence[bytes]) -> list[str]:
    """Return the last text of each of these messages, of users and systems only. Decodes nothing else."""
    found: list[str] = []
    for raw in messages:
        if b'"assistant"' in raw[:40] or b'"tool"' in raw[:40] or len(raw) > 1_000_000:
            continue
        content: Any = table(decoded(raw)).get("content")
        if isinstance(content, list) and content:
            content = table(content[-1]).get("text")
        found.append(text(content).lstrip())
    return found


def _system_texts(raw: bytes) -> list[str]:
    if not raw or len(raw) > 20_000:
        return []  # a helper's system text is short
    value = decoded(raw)
    if isinstance(value, str):
        return [value.lstrip()]
    return [text(table(block).get("text")).lstrip() for block in listed(value)]


def error_headers(code: str, status: int) -> dict[str, str]:
    """Return the headers of a refusal. Both providers' SDKs repeat a 5xx by themselves unless told not to."""
    headers = {"content-type": "application/json", "x-foldlog-code": code}
    if status < 500 and status not in (408, 409, 429):
        headers["x-should-retry"] = "false"
    return headers

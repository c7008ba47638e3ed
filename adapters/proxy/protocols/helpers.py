"""Calls a client makes beside the conversation: titles, topics, probes, suggestions, its own compaction.

Told by how a request is built where that says enough (no tools, one token of output), else by the words clients are
known to use, which stand in one table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..body import Body
from .base import Kind, harness, small
from .events import decoded, listed, table, text

SYSTEM_WORDS: tuple[tuple[str, Kind, str], ...] = (
    ("You are a title generator", "helper", "OpenCode asks for a title"),
    ("You are a helpful AI assistant tasked with summarizing conversations", "compaction", "the client compacts"),
    ("You are a context summariz", "compaction", "OpenCode compacts"),
    ("You are an anchored context summarization", "compaction", "OpenCode compacts"),
    ("Analyze if this message indicates a new conversation topic", "helper", "Claude Code asks for the topic"),
    ("Summarize this coding conversation in under 50 characters", "helper", "Claude Code asks for a title"),
    ("Generate a concise, sentence-case title", "helper", "Claude Code asks for a title"),
    ("Generate a short title", "helper", "the client asks for a title"),
    ("Generate a concise, single-line task title", "helper", "Codex asks for a title"),
    ("Summarize what was done in this conversation", "helper", "OpenCode asks for a summary"),
)
"""How the system text of a helper call without tools begins or goes on: words, kind, why."""
LAST_WORDS: tuple[tuple[str, Kind, str], ...] = (
    ("CRITICAL: Respond with TEXT ONLY", "compaction", "Claude Code compacts"),
    ("Your task is to create a detailed summary of", "compaction", "Claude Code compacts"),
    ("[SUGGESTION MODE:", "helper", "Claude Code asks for a suggestion"),
    ("The user stepped away and is coming back.", "helper", "Claude Code asks for a recap"),
    ("You are now acting as the memory extraction subagent.", "helper", "Claude Code extracts memories"),
    ("<system-reminder>This is a side question from the user.", "helper", "a side question in Claude Code"),
    ("Generate a short kebab-case name", "helper", "Claude Code asks for a name"),
    ("Please write a 5-10 word title", "helper", "Claude Code asks for a title"),
)
"""How the last text of a call beside the conversation begins in Claude Code, whatever tools it carries: they stay for
its cache's sake."""
CLASS_HEADER = "x-claude-code-request-class"
CLASSES: dict[str, Kind] = {
    "main": "main",
    "subagent": "subagent",
    "workflow": "subagent",
    "compaction": "compaction",
    "auxiliary": "helper",
    "side_reply": "helper",
}
"""What Claude Code itself calls a request, where it says so."""
_SHORT = 20_000
"""A helper's system text is shorter than this."""
_FRONT = 400
PROBE_TOKENS = 1
"""A request for this much output without tools is a probe of the quota or the key. With tools it keeps the session's
cache warm: it goes out as the session's own request, since that is what is in the cache."""


def told(headers: Mapping[str, str], body: Body, system: bytes, output: str) -> tuple[Kind, str] | tuple[None, str]:
    """Say whether a request is a call beside the conversation (``helper`` or ``compaction``), and by which sign.

    ``system``: its system text as raw JSON; ``output``: the member that limits the answer.
    """
    said = CLASSES.get(headers.get(CLASS_HEADER, ""))
    if said in ("helper", "compaction"):
        return said, "the client calls it " + headers[CLASS_HEADER]
    given = small(body, output) if output in body.members else None
    if bare(body) and isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= PROBE_TOKENS:
        return "helper", "a probe: it asks for no answer"
    if harness(headers) == "claude-code" and body.messages:
        last = body.messages[-1]
        found = next((row for row in LAST_WORDS if row[0].encode() in last), None)
        if found is not None and last_text(last).startswith(found[0]):
            return found[1:]
    if bare(body) and 0 < len(system) < _SHORT:
        for words, kind, why in SYSTEM_WORDS:
            if any(words in one[:_FRONT] for one in _texts(system)):
                return kind, why
    return None, ""


def bare(body: Body) -> bool:
    """Whether a request has no tools."""
    return "tools" not in body.arrays or not body.arrays["tools"].items


def last_text(raw: bytes) -> str:
    """Return the last text of a message."""
    content: Any = table(decoded(raw)).get("content")
    if isinstance(content, list) and content:
        content = table(content[-1]).get("text")
    return text(content).lstrip()


def _texts(raw: bytes) -> list[str]:
    """Return the texts of a system member, or of a system message's content."""
    value = decoded(raw)
    if isinstance(value, dict):
        value = value.get("content")
    if isinstance(value, str):
        return [value.lstrip()]
    return [text(table(block).get("text")).lstrip() for block in listed(value)]


def error_headers(code: str, status: int) -> dict[str, str]:
    """Return the headers of a refusal. Both providers' SDKs repeat a 5xx by themselves unless told not to."""
    headers = {"content-type": "application/json", "x-foldlog-code": code}
    if status < 500 and status not in (408, 409, 429):
        headers["x-should-retry"] = "false"
    return headers

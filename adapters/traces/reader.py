"""``load``: any recorded session as a ``Trace``, its format told by content, never by its name (issue 2, section 5)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from ...domain.errors import InputError
from . import chat, claude_code, own, pi
from .model import Codec, Skipped, Step, Trace, Usage, messages_of
from .own import write
from .parse import Line, decode, lines, read

__all__ = ["Codec", "Skipped", "Step", "Trace", "Usage", "load", "messages_of", "write"]


def load(path: str | Path) -> Trace:
    """Read a recorded session (TRACE-1 to TRACE-14 of ``specs/traces.md``).

    Broken lines are named in ``Trace.skipped``. Raises ``InputError`` if the file cannot be read or holds no request.
    """
    body = read(path)
    name = Path(path).stem
    skipped: list[Skipped] = []
    rows = list(lines(body, skipped))
    trace = _load(name, body, rows, skipped)
    if trace is None or not trace.steps:
        raise InputError(
            "nothing in this file is a request of a session; known are Claude Code and Pi logs, mini-swe logs, OpenAI "
            "chat and Anthropic message arrays (JSON or JSONL), and foldlog's own traces" + _first(skipped),
            value=str(path),
        )
    return trace


def _first(skipped: list[Skipped]) -> str:
    if not skipped:
        return ""
    return f"; {len(skipped)} lines could not be used, the first is line {skipped[0].line}: {skipped[0].why}"


def _load(name: str, body: bytes, rows: list[Line], skipped: list[Skipped]) -> Trace | None:
    whole = _whole(body, rows)
    if whole is not None:
        skipped.clear()
        return chat.load_frame(name, whole, skipped)
    votes: Counter[str] = Counter()
    for row in rows:
        votes[_vote(row.value)] += 1
    if votes["own"]:
        return own.load(rows, skipped)
    votes.pop("", None)
    votes.pop("own", None)
    kind = max(votes, key=lambda key: votes[key], default="")
    if kind == "claude":
        return claude_code.load(name, rows, skipped)
    if kind == "pi":
        return pi.load(name, rows, skipped)
    if kind == "frames":
        return _longest(name, rows, skipped)
    return chat.load_rows(name, rows, skipped) if kind or votes else None


def _whole(body: bytes, rows: list[Line]) -> bytes | None:
    """Return the file if it is one JSON text with an array of messages."""
    start = body.lstrip()[:1]
    if start == b"{" and rows and not (len(rows) == 1 and isinstance(rows[0].value.get("messages"), list)):
        return None
    try:
        value = decode(body) if start in (b"[", b"{") else None
    except ValueError:
        return None
    if isinstance(value, list) and value:
        return body
    return body if isinstance(value, dict) and isinstance(value.get("messages"), list) else None


def _vote(value: dict[str, Any]) -> str:
    """Say which format a line speaks for."""
    if own.matches(value):
        return "own"
    if claude_code.matches(value):
        return "claude"
    message = value.get("message")
    if value.get("type") == "message" and isinstance(message, dict):
        return "pi" if pi.is_message(message) else "chat"
    if isinstance(value.get("messages"), list):
        return "frames"
    return "chat" if isinstance(value.get("role"), str) else ""


def _longest(name: str, rows: list[Line], skipped: list[Skipped]) -> Trace:
    """Of several arrays in one file, successive requests of a session, the longest says everything."""
    frames = [row for row in rows if isinstance(row.value.get("messages"), list)]
    best = max(frames, key=lambda row: (len(row.value["messages"]), row.number))
    left = len(rows) - len(frames)
    ignored: Counter[str] = Counter({"another array of messages": len(frames) - 1, "other line": left})
    return chat.load_frame(name, best.raw, skipped, ignored)

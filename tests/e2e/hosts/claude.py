"""Claude Code: headless with ``-p``, one environment variable points it to the provider or to foldlog."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

from .base import KEY, NODE_MODULES, Ran, Room

NAME = "claude-code"
PACKAGE = "@anthropic-ai/claude-code"
WIRE = "anthropic"
MODEL = "claude-sonnet-4-5"
WINDOW = 40_000
TOOLS_BY_MCP = True
FORKS = True


def prepare(room: Room, base: str) -> None:
    """Nothing to write: an empty home is enough. ``base``: the provider's or the proxy's address."""
    room.environ |= {
        "ANTHROPIC_BASE_URL": base,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "ENABLE_TOOL_SEARCH": "false",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "2000",
        "MAX_THINKING_TOKENS": "1024",
    }


def manage(stage: Any) -> None:
    """Put foldlog's proxy before the provider, and its tools beside the host's own."""
    prepare(stage.room, f"http://127.0.0.1:{stage.proxy}")
    stage.setup(NAME)
    stage.serve()


def command(
    room: Room, prompt: str, session: str = "", *, fork: bool = False, pictures: tuple[Path, ...] = ()
) -> list[str]:
    """Return the command line; ``session`` is resumed, with ``fork`` as a new one. Pictures go in by standard input."""
    binary = NODE_MODULES / ".bin" / "claude"
    flags = ["--output-format", "stream-json", "--verbose", "--model", room.model]
    tools = "Bash,Read,Write,Task,Agent,mcp__foldlog__ctx_reduce,mcp__foldlog__ctx_expand"
    if session:
        flags += ["--resume", session, *(["--fork-session"] if fork else [])]
    flags += ["--tools", "Bash,Read,Write,Task", "--allowedTools", tools]
    if not pictures:
        return [str(binary), "-p", prompt, *flags]
    png = {"type": "base64", "media_type": "image/png"}
    shown = [{"type": "image", "source": {**png, "data": b64encode(file.read_bytes()).decode()}} for file in pictures]
    said = {"role": "user", "content": [*shown, {"type": "text", "text": prompt}]}
    given = room.write("prompt.jsonl", json.dumps({"type": "user", "message": said}) + "\n")
    return ["sh", "-c", 'exec "$@" <"$0"', str(given), str(binary), "-p", "--input-format", "stream-json", *flags]


def session_of(ran: Ran) -> str:
    """Return the id of the session that ran."""
    return next((str(line["session_id"]) for line in reversed(ran.lines()) if line.get("session_id")), "")


def said(ran: Ran) -> str:
    """Return the last text the host showed."""
    return next((str(line.get("result")) for line in reversed(ran.lines()) if line.get("type") == "result"), "")

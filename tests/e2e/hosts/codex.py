"""Codex: headless with ``exec``, a provider in config.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .base import KEY, NODE_MODULES, Ran, Room

NAME = "codex"
PACKAGE = "@openai/codex"
WIRE = "openai-responses"
MODEL = "scripted-1"
WINDOW = 36_000
TOOLS_BY_MCP = True
FORKS = True


def prepare(room: Room, base: str) -> None:
    """Write config.toml with a provider at ``base`` and the model's window."""
    lines = [
        'model_provider = "scripted"',
        f'model = "{room.model}"',
        f"model_context_window = {room.window}",
        'approval_policy = "never"',
        'sandbox_mode = "danger-full-access"',
        "check_for_update_on_startup = false",
        "[analytics]",
        "enabled = false",
        "[model_providers.scripted]",
        'name = "scripted"',
        f'base_url = "{base}/v1"',
        'wire_api = "responses"',
        'env_key = "SCRIPTED_KEY"',
        "request_max_retries = 8",
        "stream_max_retries = 8",
    ]
    room.write(".codex/config.toml", "\n".join(lines) + "\n")
    room.environ["SCRIPTED_KEY"] = KEY


def widen(room: Room) -> None:
    """Let Codex take the window for four times as large: from 90% of it on it compacts by itself, and no setting
    switches that off.
    """
    file = room.home / ".codex" / "config.toml"
    text = file.read_text(encoding="utf-8")
    known = f"model_context_window = {room.window}"
    file.write_text(text.replace(known, f"model_context_window = {4 * room.window}"), encoding="utf-8")


def manage(stage: Any) -> None:
    """Put foldlog's proxy before the provider, and its tools beside the host's own."""
    prepare(stage.room, f"http://127.0.0.1:{stage.proxy}")
    stage.setup(NAME)
    stage.serve()


def command(
    room: Room, prompt: str, session: str = "", *, fork: bool = False, pictures: tuple[Path, ...] = ()
) -> list[str]:
    """Return the command line; ``session`` is resumed, with ``fork`` as a new one."""
    binary = NODE_MODULES / ".bin" / "codex"
    flags = ["--skip-git-repo-check", "--json", "--dangerously-bypass-approvals-and-sandbox"]
    flags += [flag for file in pictures for flag in ("-i", str(file))]
    return [str(binary), "exec", *(["fork" if fork else "resume", session] if session else []), *flags, "--", prompt]


def session_of(ran: Ran) -> str:
    """Return the id of the session that ran."""
    return next((str(line["thread_id"]) for line in ran.lines() if line.get("thread_id")), "")


def said(ran: Ran) -> str:
    """Return the last text the host showed."""
    items = [line.get("item") or {} for line in ran.lines()]
    return next((str(item.get("text")) for item in reversed(items) if item.get("type") == "agent_message"), "")

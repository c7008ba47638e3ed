"""OpenCode 1.x: headless with ``run``, a provider in opencode.json, nothing fetched at its start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .base import KEY, NODE_MODULES, Ran, Room

NAME = "opencode"
PACKAGE = "opencode-ai"
WIRE = "anthropic"
MODEL = "scripted-1"
WINDOW = 40_000
TOOLS_BY_MCP = False
FORKS = True
QUIET = {
    "npm_config_offline": "true",
    "npm_config_fetch_retries": "0",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
}


NPM = {
    "anthropic": "@ai-sdk/anthropic",
    "openai-chat": "@ai-sdk/openai-compatible",
    "openai-responses": "@ai-sdk/openai",
}
"""The packages, all of them inside the binary, by which OpenCode speaks a wire."""


def config(room: Room, base: str, wire: str = "") -> dict[str, object]:
    """Return opencode.json with a provider at ``base``."""
    npm = NPM[wire or room.wire]
    model = {
        "name": room.model,
        "limit": {"context": room.window, "output": 4096},
        "cost": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75},
        "tool_call": True,
        "attachment": True,
        "modalities": {"input": ["text", "image"], "output": ["text"]},
        "reasoning": npm == "@ai-sdk/anthropic",
    }
    if npm == "@ai-sdk/anthropic":
        model["options"] = {"thinking": {"type": "enabled", "budgetTokens": 1024}}
    return {
        "provider": {
            "scripted": {
                "npm": npm,
                "name": "scripted",
                "options": {"baseURL": f"{base}/v1", "apiKey": KEY},
                "models": {room.model: model},
            }
        },
        "model": f"scripted/{room.model}",
        "small_model": f"scripted/{room.model}",
        "enabled_providers": ["scripted"],
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        "permission": {"*": "allow"},
    }


def prepare(room: Room, base: str) -> None:
    """Write opencode.json with a provider at ``base``."""
    room.write(".config/opencode/opencode.json", config(room, base))
    room.environ |= QUIET


def manage(stage: Any) -> None:
    """Install foldlog's plugin as a user does; what it needs it starts by itself."""
    prepare(stage.room, f"http://127.0.0.1:{stage.port}")
    stage.setup(NAME)


def command(
    room: Room, prompt: str, session: str = "", *, fork: bool = False, pictures: tuple[Path, ...] = ()
) -> list[str]:
    """Return the command line; ``session`` is resumed, with ``fork`` as a new one."""
    binary = NODE_MODULES / ".bin" / "opencode"
    flags = ["-m", f"scripted/{room.model}", "--format", "json"]
    if session:
        flags += ["--session", session, *(["--fork"] if fork else [])]
    flags += [flag for file in pictures for flag in ("--file", str(file))]
    return [str(binary), "run", *flags, "--", prompt]


def session_of(ran: Ran) -> str:
    """Return the id of the session that ran."""
    return next((str(line["sessionID"]) for line in ran.lines() if line.get("sessionID")), "")


def said(ran: Ran) -> str:
    """Return the last text the host showed."""
    parts = [line.get("part") or {} for line in ran.lines() if line.get("type") == "text"]
    return str(parts[-1].get("text", "")) if parts else ""

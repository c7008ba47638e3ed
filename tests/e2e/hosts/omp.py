"""OMP: Pi's relative on bun; the same models file, the same extension."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import pi
from .base import NODE_MODULES, Ran, Room

NAME = "omp"
PACKAGE = "@oh-my-pi/pi-coding-agent"
WIRE = "anthropic"
MODEL = pi.MODEL
WINDOW = 44_000
TOOLS_BY_MCP = False
FORKS = False


def prepare(room: Room, base: str) -> None:
    """Write models.json with a provider at ``base``."""
    room.write(".omp/agent/models.json", pi.models(room, base))
    room.environ["PI_OFFLINE"] = "1"


def manage(stage: Any) -> None:
    """Install foldlog's plugin as a user does; what it needs it starts by itself."""
    prepare(stage.room, f"http://127.0.0.1:{stage.port}")
    stage.setup(NAME)


def command(
    room: Room, prompt: str, session: str = "", *, fork: bool = False, pictures: tuple[Path, ...] = ()
) -> list[str]:
    """Return the command line; ``session`` is resumed."""
    bun = NODE_MODULES / ".bin" / "bun"
    cli = NODE_MODULES / ".bin" / "omp"
    shown = [f"@{file}" for file in pictures]
    flags = ["--no-title", "--auto-approve", "--mode", "json", "--model", f"scripted/{room.model}"]
    return [str(bun), str(cli), *flags, *(["--resume", session] if session else []), "-p", *shown, prompt]


def session_of(ran: Ran) -> str:
    """Return the id of the session that ran."""
    return pi.session_of(ran)


def said(ran: Ran) -> str:
    """Return the last text the host showed."""
    return pi.said(ran)

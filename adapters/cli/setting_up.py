"""``setup``: a host's own configuration, changed after showing how, and changed back by ``--remove``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from ...domain.errors import FoldlogError, OptionError
from .. import config as configuration
from .. import hosts, local
from ..config import Config
from . import codex, edits, jsonc, service, tomltext
from .edits import Edit
from .terminal import say
from .wrapping import ANTHROPIC, NAME, claude_server, claude_settings, codex_server, own_command

PERMISSION = f"mcp__{NAME}"


class Host(StrEnum):
    """The hosts ``setup`` knows."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    OPENCODE = "opencode"
    PI = "pi"
    OMP = "omp"


class Where(msgspec.Struct, frozen=True):
    """What a set-up depends on. ``url``: the proxy's address where it runs for good, ``""`` where it does not."""

    home: Path
    environ: Mapping[str, str]
    config: Config
    url: str


def setup(
    host: Annotated[Host, typer.Argument(metavar="HOST", help=f"One of {', '.join(Host)}.")],
    remove: Annotated[bool, typer.Option("--remove", help="Undo exactly what was set up.")] = False,
    yes: service.Yes = False,
) -> None:
    """Set a host up for foldlog: show the change, ask, keep the original beside the file.

    Claude Code and Codex get foldlog's tools, and its address where the proxy runs as a service (`foldlog enable`
    first); OpenCode, Pi and OMP get its plugin.
    """
    name = host.value
    config = configuration.load()
    url = service.address() if service.enabled() else ""
    environ = {key: value for key, value in os.environ.items() if key != local.PROXY_ENV}  # of one run, not for good
    where = Where(Path(os.environ.get("HOME") or Path.home()), environ, config, url)
    if remove:
        _remove(name, lambda: HOSTS[host](where))
        return
    plans = edits.plan(HOSTS[host](where))
    if not plans:
        say(f"{name} is set up already")
    else:
        edits.show(plans)
        service.confirm("Change it like this?", yes=yes)
        for kept in edits.carry_out(name, plans):
            say(f"the original is kept as {kept}")
        say(f"{name} is set up; `foldlog setup {name} --remove` undoes it")
    _how_to_start(host, where)


def _remove(name: str, wanted: Callable[[], Sequence[Edit]]) -> None:
    plans = edits.undoing(name, () if edits.recorded(name).files else wanted())
    if not plans:
        edits.undo(name, [])
        say(f"{name} is not set up; nothing to undo")
        return
    edits.show(plans)
    edits.undo(name, plans)
    say(f"{name} is as it was, but for what was changed there since")


def _how_to_start(host: Host, where: Where) -> None:
    command = {Host.CLAUDE_CODE: "claude", Host.CODEX: "codex"}.get(host)
    if command is None:
        say(f"start {host.value} as always")
    elif where.url:
        say(f"start {command} as always: its requests go to {where.url}")
    else:
        say(f"start it with: foldlog run -- {command}")
        say(f"(or run the proxy for good: `foldlog enable`, then `foldlog setup {host.value}` again)")


def _claude_code(where: Where) -> list[Edit]:
    folder = where.environ.get("CLAUDE_CONFIG_DIR")
    state = (Path(folder) if folder else where.home) / ".claude.json"
    settings = claude_settings(where.environ)
    made = [
        Edit(str(state), "json", claude_server(where.environ), ("mcpServers", NAME)),
        Edit(str(settings), "json", PERMISSION, ("permissions", "allow"), item=True),
    ]
    if where.url:
        text = settings.read_text(encoding="utf-8") if settings.exists() else ""
        _same_upstream("anthropic", jsonc.get(text, ("env", ANTHROPIC)), where, settings)
        made.append(Edit(str(settings), "json", where.url, ("env", ANTHROPIC)))
    return made


def _codex(where: Where) -> list[Edit]:
    file = Path(where.environ.get("CODEX_HOME") or where.home / ".codex") / "config.toml"
    entry = {key: value for key, value in codex_server(where.environ).items() if value}
    made = [Edit(str(file), "toml", entry, ("mcp_servers", NAME))]
    if where.url:
        provider, asked = codex.provider((), where.environ)
        _same_upstream("openai", asked, where, file)
        made.insert(0, Edit(str(file), "toml", f"{where.url}/v1", codex.address_of(provider)))
    return made


def _same_upstream(name: str, asked: object, where: Where, file: Path) -> None:
    """Refuse to put the proxy before a provider of the person's own that the proxy does not know."""
    if not isinstance(asked, str) or not asked or asked.rstrip("/") in {where.url, f"{where.url}/v1"}:
        return
    known = where.config.upstreams[name]  # type: ignore[index]  # a plain name
    if asked.rstrip("/").removesuffix("/v1") != known.removesuffix("/v1"):
        raise OptionError(
            "requests go to an address of your own there; write `[upstreams]` and "
            f"`{name} = {tomltext.written(asked)}` into {configuration.config_path(where.environ)}, run "
            "`foldlog restart`, and then this again",
            value=asked,
            where=str(file),
        )


def _opencode(where: Where) -> list[Edit]:
    folder = Path(where.environ.get("XDG_CONFIG_HOME") or where.home / ".config") / "opencode"
    names = ("opencode.jsonc", "opencode.json")
    file = next((folder / name for name in names if (folder / name).exists()), folder / "opencode.json")
    shim = folder / "foldlog.js"
    return [
        Edit(str(shim), "file", _shim("opencode", ("plugin", "index"))),
        Edit(str(file), "json", str(shim), ("plugin",), item=True),
    ]


def _pi(where: Where) -> list[Edit]:
    folder = Path(where.environ.get("PI_CODING_AGENT_DIR") or where.home / ".pi" / "agent")
    return [Edit(str(folder / "extensions" / "foldlog.js"), "file", _shim("pi", ("extension", "index")))]


def _omp(where: Where) -> list[Edit]:
    folder = where.home / ".omp" / "agent"
    return [Edit(str(folder / "extensions" / "foldlog.js"), "file", _shim("pi", ("extension", "index")))]


HOSTS: dict[Host, Callable[[Where], list[Edit]]] = {
    Host.CLAUDE_CODE: _claude_code,
    Host.CODEX: _codex,
    Host.OPENCODE: _opencode,
    Host.PI: _pi,
    Host.OMP: _omp,
}


def _shim(room: str, names: Sequence[str]) -> str:
    """Return a plugin file that loads the shipped one, so that an update of foldlog updates the plugin with it."""
    folder = Path(hosts.__file__).resolve().parent / room
    found = [folder / f"{name}.{kind}" for name in names for kind in ("js", "ts", "mjs")]
    plugin = next((one for one in found if one.is_file()), None)
    if plugin is None:
        raise FoldlogError("this installation of foldlog has no plugin for it; install it again", value=str(folder))
    command = msgspec.json.encode(own_command()).decode()
    return (
        "// Written by `foldlog setup`; `foldlog setup … --remove` takes it away. The plugin is part of foldlog.\n"
        f"process.env.FOLDLOG_COMMAND ??= {msgspec.json.encode(command).decode()};\n"
        f"export {{ default }} from {msgspec.json.encode(plugin.as_posix()).decode()};\n"
    )

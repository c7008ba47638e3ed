"""What a command needs so that its requests go through the proxy: environment, and flags for some hosts."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ...domain.errors import InputError, OptionError
from .. import local
from . import codex, jsonc, tomltext

ANTHROPIC, OPENAI = "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"
NAME = "foldlog"
PROGRAM = "from foldlog.adapters.cli import main; main()"
CARRIED = (
    local.PROXY_ENV, "FOLDLOG_CONFIG", "FOLDLOG_DB", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
    "PYTHONPATH",
)  # fmt: skip
"""Variables a host may keep from its MCP servers, and which ours needs to find proxy, store and configuration."""
PLUGIN_HOSTS = ("pi", "omp", "opencode")
"""Hosts that a plugin serves. The first two ask providers by their own settings only, and the proxy cannot."""


class Wrapped(msgspec.Struct, frozen=True):
    """A command made ready. ``notes``: what the person should know."""

    args: list[str]
    env: dict[str, str]
    notes: tuple[str, ...] = ()


def own_command(*args: str) -> list[str]:
    """Return the command line of foldlog itself, by absolute path, as a host may start it from anywhere."""
    beside = Path(sys.executable).with_name("foldlog.exe" if sys.platform == "win32" else "foldlog")
    found = str(beside) if beside.is_file() else shutil.which("foldlog")
    return [found, *args] if found else [sys.executable, "-P", "-c", PROGRAM, *args]


def mcp_command() -> list[str]:
    """Return the command line of our MCP server: what `foldlog mcp` is, without loading every other command.

    It is started in the person's project: ``-P`` keeps a folder ``mcp`` there from being taken for a package.
    """
    return [sys.executable, "-P", "-m", "foldlog.adapters.mcp"]


def host_of(command: str) -> str:
    """Return the name of the host a command starts: its file name without folder and suffix."""
    return Path(command).name.lower().removesuffix(".exe").removesuffix(".cmd").removesuffix(".js")


def upstreams_of(command: Sequence[str], environ: Mapping[str, str], port: int = 0) -> dict[str, str]:
    """Return the addresses the user's own settings name for the providers; the proxy asks there.

    From ``ANTHROPIC_BASE_URL`` and ``OPENAI_BASE_URL``, and from Claude Code's and Codex's own settings. An address of
    a proxy of ours, running or to run on ``port``, is none: it would ask itself.
    """
    found = {"anthropic": environ.get(ANTHROPIC, ""), "openai": environ.get(OPENAI, "")}
    host = host_of(command[0]) if command else ""
    if host == "claude":
        found["anthropic"] = claude_address(environ) or found["anthropic"]
    elif host == "codex":
        found["openai"] = codex.provider(command[1:], environ)[1] or found["openai"]
    ours = {port, *(run.port for run in local.proxies())}
    kept = {}
    for name, url in found.items():
        parts = urlsplit(url)
        if not url or (parts.hostname in {"127.0.0.1", "localhost", "::1"} and parts.port in ours):
            continue
        kept[name] = url.rstrip("/")
    return kept


def wrap(command: Sequence[str], run: local.Run, file: Path, environ: Mapping[str, str], *, tools: bool) -> Wrapped:
    """Return ``command`` with what sends its requests to ``run``, whose run file is ``file``.

    ``tools``: the host also gets foldlog's MCP server. Raises ``OptionError`` for settings that cannot be read.
    """
    host = host_of(command[0])
    env = dict(environ)
    env[ANTHROPIC] = run.url
    env[OPENAI] = env["OPENAI_API_BASE"] = f"{run.url}/v1"
    env[local.PROXY_ENV] = str(file)
    for name in ("NO_PROXY", "no_proxy"):
        if any(env.get(proxy) for proxy in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY")):
            env[name] = ",".join([*filter(None, [env.get(name, "")]), "127.0.0.1", "localhost", "::1"])
    notes = []
    if tools and find_spec("mcp") is None:
        tools = False
        notes.append("the agent has no tools of foldlog: they need more packages, pip install 'foldlog[mcp]'")
    args = list(command)
    flags: list[str] = []
    if host == "claude":
        flags = _claude(args[1:], run, env, tools=tools)
    elif host == "codex":
        args[1:] = codex.pointed(args[1:], env, f"{run.url}/v1")
        flags = ["-c", f"mcp_servers.{NAME}={tomltext.written(codex_server(env))}"] if tools else []
    elif host == "opencode":
        _opencode(env, run, tools=tools)
    return Wrapped([args[0], *flags, *args[1:]], env, tuple(notes))


def server_env(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables our MCP server needs beside those every host hands on."""
    return {name: env[name] for name in CARRIED if env.get(name)}


def claude_server(env: Mapping[str, str]) -> dict[str, Any]:
    """Return our entry under Claude Code's ``mcpServers``.

    ``alwaysLoad`` keeps the tools out of its tool search, and lets it wait for them at the start: the first request of
    a session names them.
    """
    command, *args = mcp_command()
    return {"type": "stdio", "command": command, "args": args, "env": server_env(env), "alwaysLoad": True}


def claude_settings(environ: Mapping[str, str]) -> Path:
    """Return where Claude Code keeps the user's settings."""
    folder = environ.get("CLAUDE_CONFIG_DIR")
    return (Path(folder) if folder else Path(environ.get("HOME") or Path.home()) / ".claude") / "settings.json"


def claude_address(environ: Mapping[str, str]) -> str:
    """Return the address the user's settings of Claude Code name, which wins over the environment; ``""`` for none."""
    try:
        found = jsonc.get(claude_settings(environ).read_text(encoding="utf-8"), ("env", ANTHROPIC))
    except (OSError, ValueError, InputError):
        return ""
    return found if isinstance(found, str) else ""


def _claude(args: Sequence[str], run: local.Run, env: Mapping[str, str], *, tools: bool) -> list[str]:
    if args and args[0] in _CLAUDE_COMMANDS:
        return []
    flags = []
    # written with "=": some flags take many values, and would take the person's prompt for one
    if claude_address(env) not in {"", run.url} and not any(arg.startswith("--settings") for arg in args):
        flags.append(f"--settings={msgspec.json.encode({'env': {ANTHROPIC: run.url}}).decode()}")
    if tools:
        server = msgspec.json.encode({"mcpServers": {NAME: claude_server(env)}}).decode()
        flags += [f"--mcp-config={server}", f"--allowedTools=mcp__{NAME}"]
    return flags


_CLAUDE_COMMANDS = frozenset(
    "agents auth config doctor install mcp migrate-installer plugin plugins setup-token update upgrade".split()
)


def codex_server(env: Mapping[str, str]) -> dict[str, Any]:
    """Return our entry under Codex's ``mcp_servers``.

    ``required``: it waits for the tools, so that the first request of a session names them.
    """
    command, *args = mcp_command()
    return {"command": command, "args": args, "env": server_env(env), "required": True}


def _opencode(env: dict[str, str], run: local.Run, *, tools: bool) -> None:
    """OpenCode merges this variable over its own files; a value the person set is kept beneath ours."""
    try:
        given = msgspec.json.decode(env.get("OPENCODE_CONFIG_CONTENT") or "{}")
    except msgspec.MsgspecError:
        raise OptionError("this variable does not hold JSON", where="OPENCODE_CONFIG_CONTENT") from None
    providers = given.setdefault("provider", {})
    for name in ("anthropic", "openai"):
        providers.setdefault(name, {}).setdefault("options", {})["baseURL"] = f"{run.url}/v1"
    if tools:
        given.setdefault("mcp", {})[NAME] = {
            "type": "local", "command": mcp_command(), "environment": server_env(env), "enabled": True
        }  # fmt: skip
    env["OPENCODE_CONFIG_CONTENT"] = msgspec.json.encode(given).decode()


def shown(args: Sequence[str]) -> str:
    """Return a command line as a person would type it."""
    return shlex.join(args) if os.name != "nt" else " ".join(args)

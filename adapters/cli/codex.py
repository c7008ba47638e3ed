"""Where Codex asks: its configuration, its flags, and the same flags with another address in them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import tomltext

OWN = "openai"
"""The provider Codex has without any configuration; its address is a setting of its own."""


def provider(args: Sequence[str], environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the provider Codex will use and the address its settings name for it, ``""`` where they name none.

    Read from ``config.toml``, its profile, and the ``-c`` flags among ``args``, in which the last one wins.
    """
    home = Path(environ.get("CODEX_HOME") or Path(environ.get("HOME", "~")) / ".codex")
    try:
        found = tomllib.loads((home.expanduser() / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError):  # the last: nobody of that name has a home folder
        found = {}
    for _, _, path, value in _flags(args):
        _set(found, path, value)
    profile = _profile(args) or found.get("profile")
    chosen = _get(found, ("profiles", profile, "model_provider")) if isinstance(profile, str) else None
    name = _get(found, ("model_provider",)) if _given(args, "model_provider") else chosen or found.get("model_provider")
    name = name if isinstance(name, str) else OWN
    url = _get(found, address_of(name)) or _get(found, ("model_providers", name, "base_url"))
    return name, url if isinstance(url, str) else ""


def address_of(name: str) -> tuple[str, ...]:
    """Return the setting that holds a provider's address."""
    return ("openai_base_url",) if name == OWN else ("model_providers", name, "base_url")


def pointed(args: Sequence[str], environ: Mapping[str, str], url: str) -> list[str]:
    """Return the arguments with ``url`` as the address, in front; flags that would win over it hold it too."""
    where = address_of(provider(args, environ)[0])
    made = list(args)
    for start, joined, path, given in _flags(args):
        value: Any = given
        if path == where:
            value = url
        elif path == where[: len(path)] and isinstance(given, dict):
            _set(value, where[len(path) :], url)
        else:
            continue
        setting = f"{'.'.join(path)}={tomltext.written(value)}"
        made[start] = f"--config={setting}" if joined else setting
    return ["-c", f"{'.'.join(where)}={tomltext.written(url)}", *made]


def _flags(args: Sequence[str]) -> Iterator[tuple[int, bool, tuple[str, ...], Any]]:
    """Yield the settings among the flags: index, whether written as one word, path and value."""
    index = 0
    while index < len(args) and args[index] != "--":
        arg, joined = args[index], args[index].startswith("--config=")
        setting = arg.removeprefix("--config=") if joined else ""
        if arg in {"-c", "--config"} and index + 1 < len(args):
            index += 1
            setting = args[index]
        key, equals, text = setting.partition("=")
        if equals:
            try:
                value = tomllib.loads(f"value = {text}")["value"]
            except tomllib.TOMLDecodeError:  # Codex takes it as a text then
                value = text.strip()
            yield index, joined, tuple(key.strip().split(".")), value
        index += 1


def _profile(args: Sequence[str]) -> str:
    before = args[: args.index("--")] if "--" in args else args
    for index, arg in enumerate(before):
        if arg in {"-p", "--profile"} and index + 1 < len(before):
            return before[index + 1]
        if arg.startswith("--profile="):
            return arg.removeprefix("--profile=")
    return ""


def _given(args: Sequence[str], key: str) -> bool:
    return any(path == (key,) for _, _, path, _ in _flags(args))


def _get(settings: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        settings = settings.get(key) if isinstance(settings, dict) else None
    return settings


def _set(settings: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        inner = settings.get(key)
        if not isinstance(inner, dict):
            inner = settings[key] = {}
        settings = inner
    settings[path[-1]] = value

"""``enable``, ``disable``, ``restart``: the proxy as a service of the user (systemd, launchd)."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from ...domain.errors import FoldlogError
from .. import config as configuration
from .. import local
from . import edits
from .terminal import say
from .wrapping import own_command

UNIT = "foldlog.service"
LABEL = "dev.foldlog.proxy"
RECORD = "service"
POINTED = ("claude-code", "codex")
"""Hosts that ``setup`` points to the service."""
PATIENCE = 10.0
"""Seconds the service has to begin to listen before we say that it does not."""
KEPT = ("FOLDLOG_CONFIG", "FOLDLOG_DB", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
"""Variables set when the service is enabled that it needs to find the same files."""

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


class Manager(msgspec.Struct, frozen=True):
    """How this machine runs services of a user: the file, and the commands to start, stop and restart by it.

    ``before``: run ahead of ``start``, whatever comes of it.
    """

    name: str
    file: Path
    text: str
    before: tuple[tuple[str, ...], ...]
    start: tuple[tuple[str, ...], ...]
    stop: tuple[tuple[str, ...], ...]
    after: tuple[tuple[str, ...], ...]
    again: tuple[tuple[str, ...], ...]


def manager(environ: Mapping[str, str] | None = None, platform: str = sys.platform) -> Manager:
    """Return this machine's manager of user services. Raises ``FoldlogError`` where there is none: what to do then."""
    env = os.environ if environ is None else environ
    home = Path(env.get("HOME") or Path.home())
    kept = {name: env[name] for name in KEPT if env.get(name)}
    command = own_command("serve")
    if platform == "darwin":
        return _launchd(home, command, kept)
    if platform.startswith("linux") and shutil.which("systemctl", path=env.get("PATH")):
        if _try(("systemctl", "--user", "show-environment")) == 0:
            folder = Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "systemd" / "user"
            return _systemd(folder, command, kept)
        why = "systemd runs no services for this user here (a container, or no login session)"
    else:
        why = "this machine has neither systemd nor launchd"
    raise FoldlogError(
        f"{why}. Start the proxy yourself, for example `nohup foldlog serve &` in your shell's profile, or go without "
        "a service: `foldlog run -- COMMAND`. Nothing was changed",
        code="NO_SERVICE",
    )


def enabled() -> bool:
    """Whether the service was set up by ``enable``."""
    return bool(edits.recorded(RECORD).files)


def address() -> str:
    """Return the address the service listens at."""
    config = configuration.load()
    return local.Run(config.port, 0, "", "", host=config.host).url


def enable(yes: Yes = False) -> None:
    """Set up the proxy as a service of yours, started now and at every login; what it writes is shown first."""
    this = manager()
    plans = edits.plan([edits.Edit(str(this.file), "file", this.text)])
    if plans:
        edits.show(plans)
        say(f"then: {'; '.join(' '.join(one) for one in this.start)}")
        confirm("Set the service up?", yes=yes)
        edits.carry_out(RECORD, plans)
    else:
        say(f"{this.file} is there already")
    for one in this.before:
        _do(one, must=False)
    for one in this.start:
        _do(one)
    _told(this)


def disable(yes: Yes = False) -> None:
    """Stop the service and undo exactly what ``enable`` did."""
    this = manager()
    plans = edits.undoing(RECORD, [edits.Edit(str(this.file), "file", this.text)])
    if not plans and not this.file.exists():
        say("the service is not set up; nothing to undo")
        edits.undo(RECORD, [])
        return
    if not plans:
        raise FoldlogError(
            "the service's file was changed since `foldlog enable`, so it is yours; remove it by hand",
            value=str(this.file),
        )
    edits.show(plans)
    confirm("Stop the service and remove it?", yes=yes)
    for one in this.stop:
        _do(one, must=False)
    edits.undo(RECORD, plans)
    for one in this.after:
        _do(one, must=False)
    say("the service is gone")
    for host in POINTED:
        if any(done.edit.value == address() or done.edit.value == f"{address()}/v1" for done in edits.made(host)):
            say(f"{host} still asks the proxy: `foldlog setup {host} --remove` sends it to its provider again")


def restart() -> None:
    """Restart the service, such as after an update of foldlog or a change of its configuration."""
    this = manager()
    if not this.file.exists():
        raise FoldlogError("the service is not set up; `foldlog enable` does it", code="NO_SERVICE")
    for one in this.again:
        _do(one)
    _told(this)


def confirm(question: str, *, yes: bool) -> None:
    """Ask the person; end with exit code 1 on a no. Raises ``FoldlogError`` where nobody can be asked."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise FoldlogError(
            "nobody is there to be asked; with --yes it is done without. Nothing was changed", code="ASK"
        )
    if not typer.confirm(question):
        say("nothing was changed")
        raise typer.Exit(1)


def _told(this: Manager) -> None:
    port = configuration.load().port
    end = time.monotonic() + PATIENCE
    while True:
        found = next((run for run in local.proxies() if run.port == port), None)
        if found is not None:
            say(f"the proxy serves at {found.url}; `foldlog watch` shows it, `foldlog setup HOST` points a host to it")
            return
        if time.monotonic() >= end:
            break
        time.sleep(0.1)
    how = f"systemctl --user status {UNIT}" if this.name == "systemd" else f"launchctl print gui/{_uid()}/{LABEL}"
    raise FoldlogError(
        f"the service was started but does not answer on port {port} yet; see: {how}", code="NOT_STARTED"
    )


def _systemd(folder: Path, command: Sequence[str], kept: Mapping[str, str]) -> Manager:
    environment = "".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in kept.items())
    text = (
        "[Unit]\n"
        "Description=foldlog, the proxy that keeps coding agents inside the window\n"
        "\n"
        "[Service]\n"
        f"ExecStart={' '.join(_quoted(word) for word in command)}\n"
        f"{environment}"
        "Restart=on-failure\n"
        "RestartSec=2\n"
        "TimeoutStopSec=660\n"  # open answers end first
        "\n"
        "[Install]\n"
        "WantedBy=default.target\n"
    )
    systemctl = ("systemctl", "--user")
    reload = (*systemctl, "daemon-reload")
    return Manager(
        "systemd", folder / UNIT, text,
        before=(),
        start=(reload, (*systemctl, "enable", "--now", UNIT)),
        stop=((*systemctl, "disable", "--now", UNIT),),
        after=(reload,),
        again=((*systemctl, "restart", UNIT),),
    )  # fmt: skip


def _quoted(word: str) -> str:
    """Return a word as systemd reads it: in quotes, its own signs doubled."""
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{plain}"' if any(sign in plain for sign in ' \t"\\;') else plain


def _launchd(home: Path, command: Sequence[str], kept: Mapping[str, str]) -> Manager:
    file = home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    told = {
        "Label": LABEL, "ProgramArguments": list(command), "RunAtLoad": True, "KeepAlive": {"SuccessfulExit": False},
        "EnvironmentVariables": dict(kept), "ExitTimeOut": 660,
    }  # fmt: skip
    text = plistlib.dumps(told, sort_keys=False).decode()
    domain = f"gui/{_uid()}"
    return Manager(
        "launchd", file, text,
        before=(("launchctl", "bootout", f"{domain}/{LABEL}"),),  # what is loaded already cannot be loaded
        start=(("launchctl", "bootstrap", domain, str(file)),),
        stop=(("launchctl", "bootout", f"{domain}/{LABEL}"),),
        after=(),
        again=(("launchctl", "kickstart", "-k", f"{domain}/{LABEL}"),),
    )  # fmt: skip


def _uid() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _try(command: Sequence[str]) -> int:
    try:
        return subprocess.run(command, check=False, capture_output=True, timeout=60).returncode  # noqa: S603 - ours
    except (OSError, subprocess.TimeoutExpired):
        return 1


def _do(command: Sequence[str], *, must: bool = True) -> None:
    try:
        done = subprocess.run(command, check=False, capture_output=True, timeout=700)  # noqa: S603 - ours
        said, code = (done.stderr or done.stdout).decode("utf-8", "replace").strip(), done.returncode
    except (OSError, subprocess.TimeoutExpired) as error:
        said, code = str(error), 1
    if code and must:
        raise FoldlogError(f"`{' '.join(command)}` failed: {said or code}", code="SERVICE")

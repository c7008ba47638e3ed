"""What the host modules share: a room of its own for each run, processes that end with it, and free ports."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
NODE_MODULES = Path(os.environ.get("FOLDLOG_HOSTS") or ROOT / ".hosts" / "node_modules")
"""Where scripts/hosts installed the hosts; the variable points a developer's run to another folder."""

KEY = "sk-planted-key-0000"
"""The key every host is given; it must turn up nowhere but in the provider's request headers."""


@dataclass(slots=True)
class Room:
    """A run's own folders: an empty home, a scratch folder to work in, and what its servers wrote."""

    root: Path
    window: int
    model: str
    wire: str
    environ: dict[str, str] = field(default_factory=dict)
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def home(self) -> Path:
        """The temporary home folder."""
        return self.root / "home"

    @property
    def work(self) -> Path:
        """The folder the host works in."""
        return self.root / "work"

    @property
    def provider(self) -> Path:
        """What the provider recorded."""
        return self.root / "provider"

    def write(self, path: str, content: str | dict[str, Any]) -> Path:
        """Write a file below the home folder; objects become JSON."""
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content, indent=2), encoding="utf-8")
        return file


@dataclass(frozen=True, slots=True)
class Ran:
    """How a host's run ended."""

    code: int
    out: str
    err: str
    seconds: float

    def lines(self) -> list[dict[str, Any]]:
        """Return the JSON objects of the output, one a line; other lines are skipped."""
        found = []
        for line in self.out.splitlines():
            if line.startswith("{"):
                try:
                    found.append(json.loads(line))
                except ValueError:
                    continue
        return found


@contextmanager
def room(root: Path, window: int, model: str, wire: str) -> Iterator[Room]:
    """Make a room below ``root``; whatever was started in it is ended. ``wire``: what is spoken with the provider."""
    made = Room(root, window, model, wire)
    for folder in (made.home, made.work, made.provider, root / "run"):
        folder.mkdir(parents=True)
    (root / "run").chmod(0o700)
    made.environ = {
        "HOME": str(made.home),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "TMPDIR": str(root),
        "XDG_RUNTIME_DIR": str(root / "run"),
        "NO_PROXY": "127.0.0.1,localhost",
    }
    try:
        yield made
    finally:
        for child in reversed(made.children):
            end(child)


def free_port() -> int:
    """Return a port of loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(room: Room, name: str, command: list[str], environ: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a server in ``room``, its output in ``name.log``; it is ended with the room."""
    with (room.root / f"{name}.log").open("ab") as log:
        child = subprocess.Popen(
            command,
            cwd=room.work,
            env={**room.environ, **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    room.children.append(child)
    return child


def end(child: subprocess.Popen[bytes], how: signal.Signals = signal.SIGTERM) -> None:
    """End a process and what it started; waits until it is gone."""
    if child.poll() is None:
        _signal(child, how)
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            _signal(child, signal.SIGKILL)
            child.wait(10)


def _signal(child: subprocess.Popen[Any], how: signal.Signals) -> None:
    try:
        os.killpg(child.pid, how)
    except ProcessLookupError:
        pass


def wait_for_port(port: int, child: subprocess.Popen[bytes], seconds: float = 30.0) -> None:
    """Wait until ``port`` answers; raises RuntimeError if the process ends or the time is over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise RuntimeError(f"{child.args!r} ended with {child.returncode} before it listened on {port}")
        with socket.socket() as probe:
            probe.settimeout(0.5)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.03)
    raise RuntimeError(f"{child.args!r} does not listen on {port} after {seconds:.0f} s")


def run(room: Room, command: list[str], seconds: float, started: Callable[[subprocess.Popen[bytes]], None]) -> Ran:
    """Run a host to its end in ``room``'s work folder; after ``seconds`` it is killed and the code is 124.

    ``started`` is told of the process.
    """
    began = time.monotonic()
    out, err = room.root / "host.out", room.root / "host.err"
    with out.open("wb") as one, err.open("wb") as two:
        child = subprocess.Popen(
            command,
            cwd=room.work,
            env=room.environ,
            stdin=subprocess.DEVNULL,
            stdout=one,
            stderr=two,
            start_new_session=True,
        )
        room.children.append(child)
        started(child)
        try:
            code = child.wait(seconds)
        except subprocess.TimeoutExpired:
            end(child, signal.SIGKILL)
            code = 124
    room.children.remove(child)
    said = (file.read_text(encoding="utf-8", errors="replace") for file in (out, err))
    return Ran(code, *said, time.monotonic() - began)

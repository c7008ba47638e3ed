"""A stage for one run: a room, the scripted provider in it, foldlog between both or not, and the host that plays."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import httpx
from e2e import scripts
from e2e.hosts import base
from e2e.provider import record, scenario

AMID_S = 0.5
"""A pass that the locked store keeps waiting is looked at so long after the call before it; it waits two seconds."""
_TESTS = Path(__file__).resolve().parents[1]


@dataclass(slots=True)
class Stage:
    """What a test plays on. ``port``: the provider's; ``proxy``: foldlog's, 0 where there is none."""

    room: base.Room
    host: ModuleType
    port: int
    proxy: int = 0
    server: subprocess.Popen[bytes] | None = None
    playing: subprocess.Popen[bytes] | None = None
    ran: list[base.Ran] = field(default_factory=list)

    @property
    def db(self) -> Path:
        """foldlog's store."""
        return self.room.home / "foldlog.db"

    @property
    def proxy_used(self) -> bool:
        """Whether foldlog stands between host and provider; else it is inside the host, as a plugin."""
        return self.server is not None

    @property
    def records(self) -> list[record.Record]:
        """What the provider saw up to now."""
        return record.read(self.room.provider)

    def play(
        self,
        prompt: str,
        session: str = "",
        *,
        fork: bool = False,
        pictures: tuple[Path, ...] = (),
        seconds: float = 100.0,
    ) -> base.Ran:
        """Let the host answer ``prompt``, with ``pictures`` beside it, and return how that ended."""
        command = self.host.command(self.room, prompt, session, fork=fork, pictures=pictures)
        self.ran.append(base.run(self.room, command, seconds, self._started))
        return self.ran[-1]

    def _started(self, child: subprocess.Popen[bytes]) -> None:
        self.playing = child

    def kill_host(self) -> None:
        """Kill the host in the middle of what it does."""
        if self.playing is not None:
            base.end(self.playing, signal.SIGKILL)

    def serve(self) -> None:
        """Start foldlog's proxy and wait until it listens."""
        self.server = base.start(self.room, "foldlog", [str(foldlog(self.room)), "serve"])
        base.wait_for_port(self.proxy, self.server)

    def through_proxy(self) -> None:
        """Put foldlog's proxy before the provider on a stage without foldlog."""
        foldlog(self.room)
        self.proxy = base.free_port()
        configure(self)
        self.serve()

    def recorded(self, file: Path) -> str:
        """Start a recorder before the proxy, which writes to ``file`` what comes in; returns its address."""
        port = base.free_port()
        target = f"http://127.0.0.1:{self.proxy}"
        command = [sys.executable, "-m", "e2e.recorder", target, str(file), str(port)]
        base.wait_for_port(port, base.start(self.room, "recorder", command, {"PYTHONPATH": str(_TESTS)}))
        return f"http://127.0.0.1:{port}"

    def crash(self) -> None:
        """Kill foldlog as a crash would, and start it again."""
        self.kill()
        self.again()

    def kill(self) -> None:
        """Kill foldlog."""
        if self.server is not None:
            base.end(self.server, signal.SIGKILL)
        else:
            end_link(self.room)

    def again(self) -> None:
        """Start the proxy again; plugins start what they need by themselves."""
        if self.server is not None:
            self.serve()

    def amid(self, mark: str, act: Callable[[], None]) -> None:
        """Do ``act`` in the middle of the pass behind the call that leaves the file ``mark`` (``scripts.marked``): the
        store is locked meanwhile, so that the pass cannot end.
        """
        file = self.room.work / mark
        until(file.exists, f"the host never ran what leaves {mark}")
        with closing(sqlite3.connect(self.db, timeout=10, isolation_level=None)) as held:
            held.execute("BEGIN IMMEDIATE")
            time.sleep(scripts.MARKED_S + AMID_S)
            act()

    def setup(self, name: str) -> None:
        """Let ``foldlog setup`` write a host's configuration."""
        done = subprocess.run(
            [str(foldlog(self.room)), "setup", name, "--yes"],
            cwd=self.room.work,
            env=self.room.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert not done.returncode, f"foldlog setup {name}: {done.stdout}{done.stderr}"

    def rest(self) -> None:
        """Let the cache grow old: really for foldlog, by its clock for the provider."""
        httpx.post(f"http://127.0.0.1:{self.port}/control", json={"advance": 601}, trust_env=False)
        time.sleep(scripts.TTL_S + 0.5)


def until(met: Callable[[], bool], words: str, seconds: float = 60.0) -> None:
    """Wait for something to happen; raises AssertionError with ``words`` where it does not."""
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline, words
        time.sleep(0.02)


def foldlog(room: base.Room) -> Path:
    """Write the command ``foldlog`` for ``room`` and return it: this checkout, with the interpreter of the tests."""
    folder = room.root / "bin"
    file = folder / "foldlog"
    if not file.is_file():
        folder.mkdir(exist_ok=True)
        path = os.environ.get("PYTHONPATH", "")
        line = f"exec '{sys.executable}' -c 'from foldlog.adapters.cli import main; main()' \"$@\""
        file.write_text(f"#!/bin/sh\nexport PYTHONPATH='{path}'\n{line}\n", encoding="utf-8")
        file.chmod(0o755)
        room.environ["PATH"] = f"{folder}{os.pathsep}{room.environ['PATH']}"
    return file


def end_link(room: base.Room) -> None:
    """Kill the process that plugins have started, if there is one."""
    file = room.root / "run" / "foldlog" / "link.json"
    try:
        os.kill(int(json.loads(file.read_text(encoding="utf-8"))["pid"]), signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        pass


@contextmanager
def stage(
    root: Path,
    host: ModuleType,
    script: Callable[[Path], scenario.Scenario],
    *,
    managed: bool,
    policy: str = "",
    summarizer: str = "extractive",
    model: str = "",
    wire: str = "",
) -> Iterator[Stage]:
    """Set a stage below ``root``. ``managed``: foldlog stands between host and provider; ``policy``:
    lines of its policy (TOML), ``summarizer``: who summarises for it; ``wire``: another than the host's usual one.
    """
    with base.room(root, host.WINDOW, model or host.MODEL, wire or host.WIRE) as room:
        scripts.fill(room.work)
        scene = room.root / "scenario.json"
        made = script(room.work)
        scenario.save(made, scene)
        port = base.free_port()
        command = [sys.executable, "-m", "e2e.provider", str(scene), str(room.provider), str(port)]
        child = base.start(room, "provider", command, {"PYTHONPATH": str(_TESTS)})
        base.wait_for_port(port, child)
        made_stage = Stage(room, host, port)
        if managed:
            foldlog(room)
            made_stage.proxy = base.free_port()
            configure(made_stage, policy, summarizer)
            host.manage(made_stage)
        else:
            host.prepare(room, f"http://127.0.0.1:{port}")
        try:
            yield made_stage
        finally:
            end_link(room)


def configure(stage: Stage, policy: str = "", summarizer: str = "extractive") -> None:
    """Write foldlog's configuration: its store, its port, the provider as every upstream, the model's window."""
    stage.room.environ["FOLDLOG_COMMAND"] = json.dumps([str(foldlog(stage.room))])
    upstream = json.dumps(f"http://127.0.0.1:{stage.port}")
    lines = [
        f"db = {json.dumps('sqlite:///' + str(stage.db))}",
        f"port = {stage.proxy}",
        f"summarizer = {json.dumps(summarizer)}",
        "[upstreams]",
        *(f"{name} = {upstream}" for name in ("anthropic", "openai", "chatgpt")),
        f"[models.{json.dumps('*')}]",
        f"context = {stage.room.window}",
        "output = 2000",
        "[policy]",
        f"cache_ttl = {json.dumps(f'{scripts.TTL_S}s')}",
        "protected_tokens = 2000",
        policy,
    ]
    file = stage.room.write(".config/foldlog/config.toml", "\n".join(lines) + "\n")
    stage.room.environ["FOLDLOG_CONFIG"] = str(file)


@contextmanager
def when(stage: Stage, step: int, act: Callable[[], None]) -> Iterator[None]:
    """Do ``act`` in a thread as soon as the provider was asked for ``step`` of the main track, while the body runs."""
    over = threading.Event()
    failed: list[BaseException] = []

    def watch() -> None:
        while not over.is_set():
            if any(each.kind == "step" and each.step >= step for each in stage.records):
                try:
                    act()
                except BaseException as error:  # noqa: BLE001  # told to the test below
                    failed.append(error)
                return
            time.sleep(0.02)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)
    if failed:
        raise failed[0]

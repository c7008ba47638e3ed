"""A link process in a thread of the test, and a plain client to speak with it."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from foldlog import Engine
from foldlog.adapters import local
from foldlog.adapters.config import Config
from foldlog.adapters.hosts import place
from foldlog.adapters.hosts.desk import Desk
from foldlog.adapters.hosts.link import serve
from foldlog.adapters.hosts.rpc import dumped
from foldlog.adapters.hosts.summarizing import Relay


@contextmanager
def runtime_folder(patch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Set a runtime folder of the test's own; a socket's path must be short."""
    folder = Path(tempfile.mkdtemp(prefix="fl-"))
    patch.setenv("XDG_RUNTIME_DIR", str(folder))
    try:
        yield folder / "foldlog"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Running:
    """The process in a thread. ``run``: how it is reached."""

    def __init__(self, config: Config, make: Callable[[Relay], Engine], *, tcp: bool = False) -> None:
        self.desk = Desk(config, make)
        self.ready = threading.Event()
        self.run = local.Run(0, 0, "", "")
        self.failed: BaseException | None = None
        self._stop: Callable[[], None] = lambda: None
        self.thread = threading.Thread(target=self._serve, args=(config, tcp), daemon=True)
        self.thread.start()
        assert self.ready.wait(5)
        if self.failed is not None:
            raise self.failed

    def _serve(self, config: Config, tcp: bool) -> None:
        def up(run: local.Run, stop: Callable[[], None]) -> None:
            self.run, self._stop = run, stop
            self.ready.set()

        try:
            with place.alone() as mine:
                assert mine, "another process of the test holds the lock"
                asyncio.run(serve(self.desk, config, up, tcp=tcp))
        except BaseException as error:  # noqa: BLE001 - raised in the test's own thread
            self.failed = error
            self.ready.set()
        finally:
            self.desk.close()

    def stop(self) -> None:
        """End it, as SIGTERM does."""
        if self.thread.is_alive():
            self._stop()
        self.thread.join(5)
        assert not self.thread.is_alive()


class Client:
    """One connection. Calls wait for their answers; ``send`` and ``receive`` do not pair them."""

    def __init__(self, run: local.Run, host: str = "pi", *, greet: bool = True) -> None:
        if run.socket:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(run.socket)
        else:
            self.socket = socket.create_connection(("127.0.0.1", run.port))
        self.socket.settimeout(5)
        self.file = self.socket.makefile("rwb")
        self.number = 0
        self.noticed: list[dict[str, Any]] = []
        if greet:
            self.call("hello", host=host, protocol=1, token=run.token)

    def raw(self, data: bytes) -> None:
        """Write bytes as they are."""
        self.file.write(data)
        self.file.flush()

    def send(self, method: str, **params: Any) -> int:
        """Begin a call."""
        self.number += 1
        self.raw(bytes(dumped({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})) + b"\n")
        return self.number

    def receive(self) -> dict[str, Any]:
        """Return the next line that is no notification, ``{}`` at the end."""
        while line := self.file.readline():
            frame: dict[str, Any] = json.loads(line)
            if "method" in frame and "id" not in frame:
                self.noticed.append(frame)
                continue
            return frame
        return {}

    def call(self, method: str, **params: Any) -> Any:
        """Return the result of a call. Raises ``AssertionError`` with the error it was answered with."""
        frame = self.ask(method, **params)
        assert "error" not in frame, frame
        return frame["result"]

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the answer to a call, whatever it is."""
        number = self.send(method, **params)
        frame = self.receive()
        assert frame.get("id") == number, frame
        return frame

    def close(self) -> None:
        """Hang up."""
        with suppress(OSError):
            self.file.close()
        self.socket.close()


class Plugin:
    """What a plugin does with the link: tells what changed. ``made`` is what the edits make, as the engine has it.

    That JavaScript makes the same of them is shown elsewhere (``test_edits.py``, ``test_pi.py``).
    """

    def __init__(self, running: Running, client: Client, session: str = "s", **named: Any) -> None:
        self.running, self.client, self.session, self.named = running, client, session, named
        self.told: list[dict[str, Any]] = []
        self.made: list[dict[str, Any]] = []
        self.version = ""
        self.number = 0

    def take(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """Tell a list, as changes where the process has the last one; return the answer."""
        same = 0
        while self.version and same < min(len(self.told), len(messages)) and self.told[same] == messages[same]:
            same += 1
        order: list[Any] = [[0, same]] if same else []
        order += [{"message": one, "id": name(one)} for one in messages[same:]]
        self.asked = {"session": self.session, "base": self.version, "order": order, "count": len(messages)}
        answer: dict[str, Any] = self.client.call("pass", held=self.number, **self.asked, **self.named)
        self.told, self.version, self.number = list(messages), answer["version"], answer["edits"]["number"]
        session = self.running.desk.store.engine().session(self.session, harness="pi")
        self.made = [json.loads(raw) for raw in session.reopen().messages_json]
        return answer


def name(message: dict[str, Any]) -> str:
    """Return what a message of the test is called."""
    return str(message.get("timestamp", ""))


def user(text: str, at: int) -> dict[str, Any]:
    """Return a prompt as Pi has it."""
    return {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": at}


def step(n: int, size: int = 200) -> list[dict[str, Any]]:
    """Return one tool call with its result, as Pi has them."""
    call = {"type": "toolCall", "id": f"t{n}", "name": "bash", "arguments": {"command": f"echo {n}"}}
    said = {"role": "assistant", "content": [{"type": "text", "text": f"step {n}"}, call], "timestamp": 1000 + 2 * n}
    out = {
        "role": "toolResult", "toolCallId": f"t{n}", "toolName": "bash", "isError": False,
        "content": [{"type": "text", "text": f"out {n} " + "x y z " * size}], "timestamp": 1001 + 2 * n,
    }  # fmt: skip
    return [said, out]


def assistant(n: int, *, text: str = "", stop: str = "toolUse", usage: int = 0, **more: Any) -> dict[str, Any]:
    """Return the answer that ``step(n)`` begins with, as the host's ``message_end`` shows it."""
    counted = {"input": 0, "output": 7, "cacheRead": 0, "cacheWrite": usage}
    message = {**step(n)[0], "stopReason": stop, "responseId": f"r{n}", "usage": counted, **more}
    return {**message, "content": [{"type": "text", "text": text}]} if text else message

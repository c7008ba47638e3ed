"""The link: one process a user, which the hosts' plugins start when they need it and which ends when nobody does.

It listens on a Unix socket (Windows: on loopback, with a token from a file only this user can read) and speaks
JSON-RPC, one message a line. Rules: ``specs/link.md``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from ... import __version__
from ...domain.errors import FoldlogError, StoreNewer
from ...domain.streams import escape
from .. import local
from ..config import Config
from . import place, rpc, shapes
from .desk import PROTOCOL, Caller, Desk, problem
from .opened import PROBE_EVERY

THREADS = 32
"""Calls worked on at a time; those of one session are taken one after the other."""
PENDING = 256
"""Calls of one connection that may wait before its next line is read."""
GARBAGE = 8
"""Lines that are no message before a connection is closed."""
GOODBYE = 5.0
"""Seconds that calls under way get to end when the process is told to stop."""

Method = Callable[[Desk, Caller, Any], dict[str, Any]]
METHODS: dict[str, tuple[type[Any], Method]] = {
    "open": (shapes.Open, Desk.open),
    "pass": (shapes.Pass, Desk.pass_),
    "usage": (shapes.Usage, Desk.usage),
    "failure": (shapes.Failure, Desk.failure),
    "tool": (shapes.Tool, Desk.tool),
    "status": (shapes.Of, Desk.status),
    "flush": (shapes.Of, Desk.flush),
    "compacted": (shapes.Of, Desk.compacted),
    "removed": (shapes.Removed, Desk.removed),
    "fork": (shapes.Fork, Desk.fork),
    "ack": (shapes.Ack, Desk.ack),
    "health": (shapes.Of, Desk.health),
}


class Peer:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.host = ""
        self.can: frozenset[str] = frozenset()
        self.used = 0.0
        self.asked: dict[int, asyncio.Future[Any]] = {}
        self.sessions: set[str] = set()
        self._next = 0

    def send(self, line: bytes) -> None:
        """Write one line, if anybody reads there still."""
        if not self.writer.is_closing():
            self.writer.write(line)

    async def ask(self, method: str, values: Any, timeout: float) -> Any:
        """Ask the plugin for something; return its result.

        Raises ``Problem``, ``TimeoutError``, ``ConnectionError``.
        """
        self._next += 1
        number = self._next
        self.asked[number] = asyncio.get_running_loop().create_future()
        try:
            self.send(rpc.call(method, values, number))
            return await asyncio.wait_for(self.asked[number], timeout)
        finally:
            del self.asked[number]

    def answered(self, frame: rpc.Frame) -> None:
        """Take the plugin's answer to something it was asked."""
        waiting = self.asked.get(frame.id) if isinstance(frame.id, int) else None
        if waiting is None or waiting.done():
            return
        if frame.error is not msgspec.UNSET:
            waiting.set_exception(rpc.Problem(rpc.FAILED, rpc.words(frame.error)))
        else:
            raw = frame.result
            waiting.set_result(msgspec.json.decode(raw) if isinstance(raw, msgspec.Raw) else None)

    def gone(self) -> None:
        """Let whoever asked something know that nobody will answer."""
        for waiting in self.asked.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError("the plugin is gone"))


class Link:
    """The running process: its connections, and the order of what they ask."""

    def __init__(self, desk: Desk, config: Config, token: str = "") -> None:
        self.desk = desk
        self.config = config
        self.token = token
        self.peers: set[Peer] = set()
        self.stop = asyncio.Event()
        self.used = time.monotonic()
        self.working = 0
        self._newer = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lanes: dict[str, tuple[asyncio.Lock, int]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(THREADS, "foldlog-link")

    def listen(self) -> None:
        """Let what works in other threads find the connections. Called in the loop."""
        self._loop = asyncio.get_running_loop()
        self.desk.relay.ask = self.ask

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it ends."""
        if not self.token and place.stranger(writer.get_extra_info("socket")):
            writer.close()  # without a word: nothing here is for another user
            return
        peer = Peer(reader, writer)
        self.peers.add(peer)
        self.used = time.monotonic()
        try:
            await self._lines(peer)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the host is gone, or the process ends
        finally:
            self.peers.discard(peer)
            self.used = time.monotonic()
            peer.gone()
            writer.close()

    async def _lines(self, peer: Peer) -> None:
        room = asyncio.Semaphore(PENDING)
        garbage = 0
        while not self.stop.is_set():
            try:
                line = await peer.reader.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return
            except asyncio.LimitOverrunError:
                said = f"a line may have {rpc.LINE_LIMIT:,} bytes; the connection is closed"
                peer.send(rpc.refusal(None, rpc.Problem(rpc.INVALID, said)))
                return
            self.used = time.monotonic()
            if not line.strip():
                continue
            frame = None
            try:
                frame = rpc.read(line)
                if not peer.host:
                    peer.send(rpc.answer(frame.id, self._hello(peer, frame)))
                    continue
            except rpc.Problem as said:
                garbage += 1
                peer.send(rpc.refusal(frame.id if frame else None, said))
                if not peer.host or garbage >= GARBAGE:
                    return  # not one of ours: a browser, a scanner, or a plugin that has gone wrong
                continue
            if not frame.method:
                peer.answered(frame)
                continue
            await room.acquire()
            task = asyncio.create_task(self._call(peer, frame))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(lambda _: room.release())

    def _hello(self, peer: Peer, frame: rpc.Frame) -> dict[str, Any]:
        if frame.method != "hello":
            raise rpc.Problem(rpc.INVALID, "a connection begins with the method hello")
        given = rpc.params(frame.params, shapes.Hello)
        if self.token and not local.same_token(given.token, self.token):
            raise rpc.Problem(rpc.INVALID, "the token is not the one in the run file")
        if given.protocol != PROTOCOL:
            raise rpc.Problem(
                rpc.FAILED,
                f"the plugin speaks version {given.protocol} of the link, this foldlog {PROTOCOL}; run `foldlog setup "
                f"{given.host}` again, and end the old process with `foldlog link --stop`",
                {"code": "PROTOCOL", "recoverable": False},
            )
        if not given.host:
            raise rpc.Problem(rpc.PARAMS, "a host has a name", {"code": "INVALID_INPUT", "recoverable": False})
        peer.host, peer.can = given.host, frozenset(given.can)
        return {"version": __version__, "protocol": PROTOCOL, "pid": os.getpid()}

    async def _call(self, peer: Peer, frame: rpc.Frame) -> None:
        self.working += 1
        outdated = False
        try:
            result = await self._run(peer, frame)
        except rpc.Problem as said:
            line = rpc.refusal(frame.id, said)
        except FoldlogError as error:
            line = rpc.refusal(frame.id, problem(error, self.config))
            outdated = isinstance(error, StoreNewer)
        except Exception as error:  # noqa: BLE001 - a defect of ours must refuse this call, not end everybody's process
            words = f"foldlog has a defect: {type(error).__name__} in {frame.method[:40]}; nothing was sent"
            line = rpc.refusal(frame.id, rpc.Problem(rpc.INTERNAL, words, {"code": "DEFECT", "recoverable": False}))
        else:
            line = rpc.answer(frame.id, result)
        finally:
            self.working -= 1
            self.used = time.monotonic()
        if frame.id is not None:
            peer.send(line)
            with suppress(ConnectionError):
                await peer.writer.drain()
        self._newer += outdated
        if outdated and self._newer % PROBE_EVERY == 0:
            self.stop.set()  # the program on the disk may be a newer one by now: the next call starts that

    async def _run(self, peer: Peer, frame: rpc.Frame) -> dict[str, Any]:
        kind, method = METHODS.get(frame.method, (None, None))
        if kind is None or method is None:
            raise rpc.Problem(rpc.UNKNOWN_METHOD, f"the link has no method {frame.method[:40]!r}")
        given = rpc.params(frame.params, kind)
        loop = asyncio.get_running_loop()
        peer.used = time.monotonic()
        if frame.method == "pass":
            peer.sessions.add(given.session)

        def waiting(words: str) -> None:
            values = {"call": frame.id, "session": given.session, "text": words}
            loop.call_soon_threadsafe(peer.send, rpc.call("waiting", values))

        caller = Caller(peer.host, waiting)
        async with self._lane(f"{peer.host}/{given.session}"):
            return await loop.run_in_executor(self._threads, method, self.desk, caller, given)

    @asynccontextmanager
    async def _lane(self, name: str) -> AsyncIterator[None]:
        """Let the calls of one session through one after the other, in the order they came."""
        lock, users = self._lanes.get(name, (asyncio.Lock(), 0))
        self._lanes[name] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._lanes.pop(name)
            if users > 1:
                self._lanes[name] = lock, users - 1

    def ask(self, stream: str, values: dict[str, Any], timeout: float) -> Any:
        """Ask the plugin that serves a session for a summary, from another thread; None where no plugin can.

        The session's own plugin comes first, then another of its host, the one used last. Raises ``FoldlogError``,
        ``TimeoutError``, ``ConnectionError``.
        """
        _, host, name = stream.split("/", 2)
        able = [peer for peer in list(self.peers) if "summarize" in peer.can and peer.host == host]
        if not able or self._loop is None:
            return None
        peer = max(able, key=lambda one: (any(escape(id_) == name for id_ in one.sessions), one.used))
        asked = asyncio.run_coroutine_threadsafe(peer.ask("summarize", values, timeout), self._loop)
        try:
            return asked.result(timeout + 1)
        except rpc.Problem as said:
            raise FoldlogError(said.message, code="SUMMARISER") from None

    async def until_idle(self) -> None:
        """Return when nobody has been connected and nothing asked for as long as is configured, or on ``stop``."""
        limit = self.config.idle_exit_s
        while not self.stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stop.wait(), max(min(limit / 4, 5.0), 0.02))
            if not self.peers and not self.working and time.monotonic() - self.used >= limit:
                return

    async def end(self) -> None:
        """Let what is under way end, then close every connection."""
        self.stop.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GOODBYE)
        for peer in list(self.peers):
            peer.writer.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


Ready = Callable[[local.Run, Callable[[], None]], None]


async def serve(desk: Desk, config: Config, ready: Ready, *, tcp: bool = False) -> None:
    """Listen until nobody needs the process. The caller holds the lock (``place.alone``).

    ``ready`` is called once, when the process can be reached, with how, and with what ends it (from any thread).
    ``tcp``: loopback with a token.
    """
    tcp = tcp or sys.platform == "win32"
    token = local.new_token() if tcp else ""
    link = Link(desk, config, token)
    link.listen()
    if tcp:
        server = await asyncio.start_server(link.connected, "127.0.0.1", 0, limit=rpc.LINE_LIMIT)
        where = {"port": server.sockets[0].getsockname()[1], "token": token}
    else:
        path = place.socket_path()
        server = await asyncio.start_unix_server(link.connected, sock=place.bound(path), limit=rpc.LINE_LIMIT)
        where = {"port": 0, "token": "", "socket": str(path)}
    run = local.Run(pid=os.getpid(), version=__version__, **where)
    file = place.run_file()
    local.write(file, run)
    loop = asyncio.get_running_loop()
    if sys.platform != "win32" and threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, link.stop.set)
    try:
        ready(run, lambda: _soon(loop, link))
        await link.until_idle()
    finally:
        server.close()
        local.remove(file)
        if run.socket:
            with suppress(OSError):
                Path(run.socket).unlink()
        await link.end()


def _soon(loop: asyncio.AbstractEventLoop, link: Link) -> None:
    loop.call_soon_threadsafe(link.stop.set)

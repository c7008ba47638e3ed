"""The proxy as a process: its socket, its run file, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import structlog
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from ... import __version__
from ...domain.errors import FoldlogError, OptionError
from .. import local
from . import guard

log = structlog.get_logger("foldlog.proxy")

GRACE_S = 600
"""Seconds open answers have to end after SIGTERM; a second signal ends at once."""
BACKLOG = 256


class OneUser(H11Protocol):
    """Closes a connection of another user before it has said anything."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Look whose connection this is (``guard.same_user``)."""
        super().connection_made(transport)
        peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        if peer and own and guard.same_user(peer[:2], own[:2]) is False:
            log.warning("a connection of another user was closed")
            transport.abort()


class Server(uvicorn.Server):
    """Lets those who watch go when it is told to end: they would keep it for ever."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None], ending: Callable[[], None]) -> None:
        super().__init__(config)
        self._started = started
        self._ending = ending

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve, then say so."""
        await super().startup(sockets)
        if self.started:
            self._started()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End after the open answers, on the second signal at once."""
        # uvicorn's own would raise the signal again when all is over, and nothing of ours would be put away
        self.force_exit = self.should_exit
        self.should_exit = True
        self._ending()


def listen(host: str, port: int) -> socket.socket:
    """Return the listening socket. ``port`` 0: any free one. Raises ``OptionError``."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    # the protocol is named so that asyncio turns Nagle off: each event of a stream would else wait for an ACK (40 ms)
    found = socket.socket(kind, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name != "nt":  # there it would let another program take the port away
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        raise OptionError(
            f"the proxy cannot listen there ({error.strerror}); is another one running? Choose a port with --port",
            value=f"{host}:{port}",
            where="port",
        ) from None
    found.set_inheritable(False)
    return found


def run(app: Starlette, listening: socket.socket, token: str, started: Callable[[local.Run], None]) -> None:
    """Serve until SIGTERM or SIGINT; open answers end first. ``started`` is called when clients can connect."""
    told = _run_of(listening, token)
    place: Path = local.proxy_file(told.port)

    def ready() -> None:
        local.write(place, told)
        started(told)

    try:
        Server(_settings(app, GRACE_S), ready, lambda: _let_go(app)).run(sockets=[listening])
    finally:
        local.remove(place)


@contextlib.contextmanager
def beside(app: Starlette, listening: socket.socket, token: str, grace: int) -> Iterator[local.Run]:
    """Serve in a thread while the block runs, then end as ``run`` does. ``grace``: seconds open answers have to end.

    Raises ``FoldlogError`` (``NOT_STARTED``).
    """
    told = msgspec.structs.replace(_run_of(listening, token), passing=True)
    place: Path = local.proxy_file(told.port)
    begun = threading.Event()
    server = Server(_settings(app, grace), begun.set, lambda: None)

    def serving() -> None:
        try:
            server.run(sockets=[listening])
        except SystemExit:  # uvicorn's word for an application that did not start
            log.error("the proxy did not start")
        finally:
            begun.set()

    thread = threading.Thread(target=serving, name="foldlog-proxy")
    thread.start()
    try:
        begun.wait()
        if not server.started:
            raise FoldlogError("the proxy could not start", value=told.port, code="NOT_STARTED")
        local.write(place, told)
        yield told
    finally:
        local.remove(place)
        server.should_exit = True
        _let_go(app)
        thread.join()


def _run_of(listening: socket.socket, token: str) -> local.Run:
    host, port = listening.getsockname()[:2]
    return local.Run(port, os.getpid(), token, __version__, host=host)


def _let_go(app: Starlette) -> None:
    """Let those who watch go. Called by a signal's handler or another thread: only a note to the loop."""
    loop: Any = getattr(app.state, "loop", None)
    if loop is not None and not loop.is_closed():
        loop.call_soon_threadsafe(app.state.door.feed.close)


def _settings(app: Starlette, grace: int) -> uvicorn.Config:
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # a cut answer is told by us, in one line
    return uvicorn.Config(
        app,
        http=OneUser,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=grace,
        h11_max_incomplete_event_size=256 * 1024,
    )

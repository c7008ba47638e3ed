"""``link``: the process the hosts' plugins share. Plugins start it; a person rarely does."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import structlog
import typer

from ...api import Engine
from ...domain.errors import FoldlogError
from .. import local
from ..config import Config, load, summarizer
from ..hosts import place
from ..hosts.summarizing import Relay, ThroughHost
from ..models.summarizers import Extractive
from ..models.tokens import tokenizer
from .logs import log_file
from .terminal import emit, say

PATIENCE = 10.0
"""Seconds to wait for the process that was first, or for one that is to end."""


def link(
    stop: Annotated[bool, typer.Option("--stop", help="End the process that is running.")] = False,
    tcp: Annotated[bool, typer.Option("--tcp", help="Listen on loopback with a token instead of a socket.")] = False,
) -> None:
    """Run the process that the plugins of OpenCode, Pi and OMP talk to; it ends by itself when it is idle.

    Prints one line of JSON when it can be reached: where, and the process id. If one is running, prints where that is.
    """
    if stop:
        _stop()
        return
    config = load()
    with place.alone() as mine:
        if not mine:
            _other()
            return
        from ..hosts.desk import Desk
        from ..hosts.link import serve

        os.umask(0o077)
        desk = Desk(config, lambda relay: _engine(config, relay))
        with log_file("link") as file:
            structlog.configure(logger_factory=structlog.WriteLoggerFactory(file))
            try:
                asyncio.run(serve(desk, config, _ready, tcp=tcp))
            finally:
                desk.close()


def _engine(config: Config, relay: Relay) -> Engine:
    if config.summarizer != "host":
        return Engine.open(config.db, summarizer(config))
    return Engine.open(config.db, ThroughHost(relay, Extractive(tokenizer())))


def _ready(run: local.Run, _: Callable[[], None]) -> None:
    emit(run)
    sys.stdout.flush()
    if sys.stdout.isatty():
        return
    # whoever started us reads no further: a pipe that is closed at the other end must not end this process
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)


def _other() -> None:
    """Print where the process that was first can be reached."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        run = place.running()
        if run is not None:
            emit(run)
            return
        time.sleep(0.05)
    raise FoldlogError(
        "another foldlog link process holds the lock but does not answer; end it with `foldlog link --stop`",
        where=str(place.run_file()),
        code="LINK",
    )


def _stop() -> None:
    path = place.run_file()
    run = local.read(path)
    if run is None or not local.alive(run):
        say("no link process is running")
        return
    os.kill(run.pid, signal.SIGTERM)
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and Path(path).exists():
        time.sleep(0.05)
    say("the link process has ended" if not path.exists() else "the link process was told to end")

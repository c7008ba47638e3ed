"""``run``: one command with its requests going through the proxy, and the proxy ending with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from ... import __version__
from ...api import Engine
from ...domain.errors import FoldlogError, OptionError
from .. import config as configuration
from .. import local
from ..config import Config
from . import options
from .edits import recorded
from .live import Totals, follow, health
from .logs import log_file
from .terminal import warn
from .wrapping import PLUGIN_HOSTS, host_of, upstreams_of, wrap

SETTLING = 10.0
"""Seconds in which, after the command has ended, what is still being written down may finish."""
QUIET = 0.3
"""Seconds of silence after which a proxy that goes on has told what was settled."""
FORWARDED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
FELT = ("SIGINT", "SIGQUIT")
"""Signals of the terminal: they reach the command by themselves, and what to do on them is its own affair."""


def run(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND…", help="What to run, with its arguments.")],
    observe: Annotated[
        bool,
        typer.Option(
            "--observe",
            help="Pass every byte through untouched; record, and say what foldlog would have sent and cost.",
        ),
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=1, max=65_535, show_default=False, help="The proxy's port, else the configured one."
        ),
    ] = None,
    tools: Annotated[
        bool | None,
        typer.Option(
            "--tools/--no-tools",
            show_default="with tools, but not with --observe",
            help="Give Claude Code, Codex and OpenCode foldlog's tools (MCP).",
        ),
    ] = None,
    db: options.Db = None,
) -> None:
    """Run a command with its requests to the providers going through foldlog: foldlog run -- claude.

    Starts the proxy in this process, or uses the one of yours that runs already, sets ANTHROPIC_BASE_URL and
    OPENAI_BASE_URL (for Codex and OpenCode their own settings too), and ends with the command's exit code.
    """
    config = configuration.load()
    if db is not None:
        config = config.model_copy(update={"db": db})
    host = host_of(command[0])
    if host in PLUGIN_HOSTS and (recorded(host).files or host != "opencode"):
        raise OptionError(_by_plugin(host), value=command[0], where="COMMAND")
    named = upstreams_of(command, os.environ, config.port if port is None else port)
    with contextlib.ExitStack() as stack:
        found = None if observe or db is not None else _running(config, port, named)
        if found is None:
            proxy, summary = stack.enter_context(_own_proxy(config, port, named, observing=observe))
        else:
            proxy, summary = found, None
        given = not observe if tools is None else tools
        ready = wrap(command, proxy, local.proxy_file(proxy.port), {**os.environ, **_upstreams(named)}, tools=given)
        for note in ready.notes:
            warn(f"foldlog: {note}")
        counting = Counting(proxy)
        code = _child(ready.args, ready.env)
        _settled(proxy)
        said = summary() if observe and summary is not None else ""
    totals = counting.finish(ended=found is None)
    said = said or totals.line()
    if found is not None:
        said += f" (all that the proxy on port {proxy.port} served meanwhile)"
    if len(totals.sessions) == 1:
        said += f"; pass by pass: foldlog passes {next(iter(totals.sessions))}"
    warn(f"foldlog: {said}")
    raise typer.Exit(code)


def _upstreams(named: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which a further `foldlog run` inside the command asks where this one does."""
    keys = {key: variable for variable, key in configuration.ENVIRONMENT.items()}
    return {keys[f"upstreams.{name}"]: url for name, url in named.items()}


def _by_plugin(host: str) -> str:
    if recorded(host).files:
        return f"{host} is set up with foldlog's plugin, which does what the proxy would; start {host} as always"
    return (
        f"{host} does not take a provider's address from its environment; run `foldlog setup {host}` once, and then "
        f"start {host} as always"
    )


def _running(config: Config, port: int | None, named: Mapping[str, str]) -> local.Run | None:
    """Return the proxy of this user that can serve: one that stays, of this version, managing, asking as we would."""
    wanted = config.port if port is None else port
    found = next((one for one in local.proxies() if one.port == wanted), None)
    if found is None or found.passing or found.version != __version__:
        return None
    if any(config.upstreams.get(name) != url for name, url in named.items()):  # type: ignore[call-overload]  # a plain name
        return None
    said = health(found)
    return found if said is not None and not said.get("observing") else None


@contextlib.contextmanager
def _own_proxy(
    config: Config, port: int | None, named: Mapping[str, str], *, observing: bool
) -> Iterator[tuple[local.Run, Callable[[], str]]]:
    """Serve in this process while the block runs; give what runs, and what tells what an observation comes to."""
    try:
        import structlog

        from ..proxy import server
        from ..proxy.app import make_app
        from ..proxy.tally import summary
    except ImportError as error:
        raise FoldlogError(
            f"the proxy needs more packages ({error.name}): pip install 'foldlog[proxy]'", code="MISSING"
        ) from None
    config = config.model_copy(update={"upstreams": {**config.upstreams, **named}})
    made = configuration.summarizer(config)
    token = local.new_token()
    try:
        listening = server.listen(config.host, config.port if port is None else port)
    except OptionError:
        if port is not None:
            raise
        listening = server.listen(config.host, 0)
    app = make_app(config, lambda: Engine.open(config.db, made), token=token, observing=observing)
    with log_file("proxy") as file:
        structlog.configure(logger_factory=structlog.WriteLoggerFactory(file))
        with server.beside(app, listening, token, int(SETTLING)) as run:
            yield run, lambda: summary(app.state.door.tallies.values())


class Counting:
    """Sums up what a proxy serves from now on, in a thread of its own."""

    def __init__(self, proxy: local.Run) -> None:
        self.totals = Totals()
        self._proxy = proxy
        self._since = time.time_ns() // 1_000_000
        self._last = time.monotonic()
        self._thread = threading.Thread(target=self._count, name="foldlog-count", daemon=True)
        self._thread.start()

    def _count(self) -> None:
        for moment in follow(self._proxy):
            if moment is not None and moment.at >= self._since:
                self.totals.take(moment)
                self._last = time.monotonic()

    def finish(self, *, ended: bool) -> Totals:
        """Return the sums. ``ended``: the proxy has ended, and its feed with it; else wait until nothing more comes."""
        if ended:
            self._thread.join(SETTLING)
        else:
            since = time.monotonic()
            _wait(lambda: time.monotonic() - max(self._last, since) > QUIET, SETTLING)
        return self.totals


def _settled(proxy: local.Run) -> None:
    """Wait until what was answered is written down and told."""

    def done() -> bool:
        said = health(proxy)
        return said is None or not said.get("open")

    _wait(done, SETTLING)


def _wait(until: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        time.sleep(0.02)


def _child(args: Sequence[str], env: Mapping[str, str]) -> int:
    """Run the command on our own terminal and return its exit code as a shell would."""
    held: dict[Any, Any] = {}
    child: subprocess.Popen[bytes] | None = None

    def forward(number: int, _: Any) -> None:
        if child is not None and child.poll() is None:
            child.send_signal(number)

    def felt(number: int, _: Any) -> None:
        """The command got it from the terminal as well."""

    for names, handler in ((FORWARDED, forward), (FELT, felt)):
        for name in names:
            number = getattr(signal, name, None)
            if number is not None and threading.current_thread() is threading.main_thread():
                held[number] = signal.signal(number, handler)
    try:
        child = subprocess.Popen(args, env=dict(env))  # noqa: S603 - what the person asked for
        code = child.wait()
    except FileNotFoundError:
        warn(f"foldlog: there is no command {args[0]!r}")
        return 127
    except OSError as error:
        warn(f"foldlog: {args[0]!r} cannot be run: {error.strerror}")
        return 126
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code

"""``serve``: the proxy between a coding agent and its provider."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ...api import Engine
from ...domain.errors import FoldlogError
from .. import config as configuration
from .. import local
from . import options
from .terminal import emit, say, warn


def serve(
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65_535, show_default=False, help="The port; 0: any free one.")
    ] = None,
    observe: Annotated[
        bool,
        typer.Option("--observe", help="Change nothing: record sessions, and reckon what foldlog would have sent."),
    ] = False,
    db: options.Db = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print where it listens as JSON, and nothing else.")] = False,
) -> None:
    """Serve coding agents: point one at the address it prints, and each of its requests is kept inside the window."""
    config = configuration.load()
    changes = {"db": db, "port": port}
    config = config.model_copy(update={name: value for name, value in changes.items() if value is not None})
    try:
        import structlog

        from ..proxy import server
        from ..proxy.app import make_app
        from ..proxy.tally import summary
    except ImportError as error:
        raise FoldlogError(
            f"the proxy needs more packages ({error.name}): pip install 'foldlog[proxy]'", code="MISSING"
        ) from None
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    summarizer = configuration.summarizer(config)
    token = local.new_token()
    listening = server.listen(config.host, config.port)
    app = make_app(config, lambda: Engine.open(config.db, summarizer), token=token, observing=observe)

    def started(run: local.Run) -> None:
        if as_json:
            emit({"url": run.url, "port": run.port, "pid": run.pid, "observing": observe})
        else:
            _greet(run, observe)
        sys.stdout.flush()

    server.run(app, listening, token, started)
    if observe and not as_json:
        warn(summary(app.state.door.tallies.values()))


def _greet(run: local.Run, observing: bool) -> None:
    say(f"foldlog {'observes' if observing else 'serves'} at {run.url} (process {run.pid}); ctrl-c ends it")
    say(f"  Claude Code:  ANTHROPIC_BASE_URL={run.url} claude")
    say(f"  others:       {run.url} for Anthropic's API, {run.url}/v1 for OpenAI's")

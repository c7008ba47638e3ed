"""The program itself: its commands, and what becomes of a failure."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

import typer
from typer.core import TyperGroup

from ... import __version__
from ...domain.errors import FoldlogError, InputError, StoreUnavailable
from . import (
    checking,
    explaining,
    linking,
    playing,
    reading,
    refusals,
    running,
    service,
    serving,
    setting_up,
    tools,
    watching,
)
from .terminal import plain

FAILED, WRONG, STOPPED = 1, 2, 130
"""Exit codes: a check that failed or work that could not be done, a wrong argument, stopped by the person."""


class Program(TyperGroup):
    """The group of commands; every failure of foldlog becomes one line for people and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command. A wrong argument, session or URL exits with 2, any other failure with 1."""
        try:
            return super().invoke(ctx)
        except FoldlogError as error:
            typer.echo(f"foldlog: {plain(str(error))}", err=True)
            wrong = isinstance(error, InputError | StoreUnavailable)
            raise typer.Exit(WRONG if wrong else FAILED) from None
        except (KeyboardInterrupt, typer.Abort):  # the latter where a question was asked
            typer.echo("foldlog: stopped", err=True)
            raise typer.Exit(STOPPED) from None


app = typer.Typer(
    name="foldlog",
    cls=Program,
    help="Keep a long coding-agent session inside the model's window, and show, explain and audit every request.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for _command in (
    playing.simulate, playing.demo, reading.sessions, reading.passes, reading.show, explaining.diff, explaining.why,
    reading.status, reading.flush, checking.audit, reading.export, checking.verify, checking.backup,
    refusals.explain_error, running.run, serving.serve, watching.watch, service.enable, service.disable,
    service.restart, setting_up.setup, tools.mcp,
):  # fmt: skip
    app.command()(_command)
app.command(hidden=True)(linking.link)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"foldlog {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Keep a long coding-agent session inside the model's window, and show, explain and audit every request."""


def main() -> None:
    """Run the command line. Never returns: it exits with 0, 1, 2 or 130."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(
            AttributeError, ValueError
        ):  # whatever the terminal's encoding, no text of a session may break it
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # text streams have it
    try:
        app()
    finally:
        _flush()


def _flush() -> None:
    """Write out what is left; where the reader is gone (``| head``), point the output nowhere: nothing complains."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

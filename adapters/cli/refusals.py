"""``explain-error``: what a provider's error means, and what helps."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from ...domain.overflow import Explained, explain
from . import options
from .terminal import emit, say, warn


def explain_error(
    text: Annotated[
        str,
        typer.Argument(metavar="[-|TEXT]", show_default=False, help="The error; - or nothing reads it from the input."),
    ] = "-",
    status: Annotated[int | None, typer.Option("--status", metavar="N", help="The HTTP status it came with.")] = None,
    as_json: options.Json = False,
) -> None:
    """Say what a provider's error means: too long for the window, or what else, and what to do about it.

    Takes any body as it came: JSON, a stream's events, an SDK's message, a gateway's wrapper, a piece of one.
    """
    if status is not None and not 100 <= status <= 599:
        raise typer.BadParameter(f"{status} is not an HTTP status", param_hint="--status")
    if text == "-" and sys.stdin.isatty():
        warn("paste the error, then press ctrl-d on a line of its own")
    given = sys.stdin.buffer.read() if text == "-" else text
    if status is None and not given.strip():
        raise typer.BadParameter("there is no error to explain: neither words nor a --status", param_hint="TEXT")
    found = explain(status, given)
    if as_json:
        emit(_told(found))
        return
    head = "too long for the window" if found.overflow else "not an overflow of the window"
    head = {"output_driven": f"{head}, by the answer allowed for", "suspected": f"perhaps {head}"}.get(found.kind, head)
    say(f"{head} ({found.kind})")
    if found.limit:
        say(f"limit: {found.limit:,} tokens")
    if found.used:
        say(f"used: {found.used:,} tokens")
    if found.provenance:
        say(f"read from: {found.provenance}")
    say(found.what_to_do)


def _told(found: Explained) -> dict[str, Any]:
    """Return the answer as JSON has it: a figure that was not said is null, never 0."""
    return {
        "overflow": found.overflow,
        "limit": found.limit or None,
        "used": found.used or None,
        "kind": found.kind,
        "what_to_do": found.what_to_do,
        "provenance": found.provenance,
    }

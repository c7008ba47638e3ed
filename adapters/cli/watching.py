"""``watch``: the requests of the running proxy, live."""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import Annotated

import msgspec
import typer
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ...domain.errors import FoldlogError
from .. import local
from ..proxy.feed import Moment
from . import options
from .live import Totals, follow
from .terminal import emit_raw, number, plain, say

ROWS = 20
COLUMNS = ("time", "session", "pass", "level", "prompt", "from cache", "output", "not sent", "note")
RIGHT = frozenset({2, 4, 5, 6, 7})


def watch(
    port: Annotated[
        int | None,
        typer.Option("--port", min=1, max=65_535, show_default=False, help="The proxy's port, if several run."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Watch the running proxy: each request with its level, usage, what was not sent, and cache lost with its cause.

    Ends with the proxy, or with Ctrl-C.
    """
    run = local.proxy(port)
    if run is None:
        where = f" on port {port}" if port is not None else ""
        raise FoldlogError(
            f"no proxy of yours is running{where}: start one with `foldlog serve`, `foldlog run -- COMMAND`, or for "
            "good with `foldlog enable`",
            code="NO_PROXY",
        )
    if as_json:
        for moment in follow(run):
            if moment is not None:
                emit_raw(msgspec.json.encode(moment))
                sys.stdout.flush()
    elif sys.stdout.isatty():
        _live(run)
    else:
        _lines(run)


def _lines(run: local.Run) -> None:
    totals = Totals()
    for moment in follow(run):
        if moment is not None:
            totals.take(moment)
            say("  ".join(cell for cell in cells(moment) if cell))
            sys.stdout.flush()
    say(f"the proxy ended: {totals.line()}")


def _live(run: local.Run) -> None:
    totals = Totals()
    rows: deque[Moment] = deque(maxlen=ROWS)
    with Live(_picture(run, rows, totals), console=Console(highlight=False, emoji=False), refresh_per_second=4) as live:
        for moment in follow(run):
            if moment is not None:
                totals.take(moment)
                rows.append(moment)
                live.update(_picture(run, rows, totals))
    say("the proxy ended")


def _picture(run: local.Run, rows: deque[Moment], totals: Totals) -> Group:
    table = Table(box=box.SIMPLE, pad_edge=False)
    for index, name in enumerate(COLUMNS):
        table.add_column(name, justify="right" if index in RIGHT else "left", overflow="ellipsis", no_wrap=True)
    for moment in rows:
        table.add_row(*(Text(cell) for cell in cells(moment)))
    lost = ", ".join(f"{cause} {tokens:,}" for cause, tokens in totals.lost.most_common()) or "none"
    return Group(
        table, Text(plain(f"port {run.port}: {totals.line()}")), Text(plain(f"cache lost by cause, in tokens: {lost}"))
    )


def cells(moment: Moment) -> tuple[str, ...]:
    """Return a request as the cells of a row, safe for a terminal."""
    when = time.strftime("%H:%M:%S", time.localtime(moment.at / 1000)) if 0 < moment.at < 1 << 43 else "-"
    level = moment.level if moment.kind == "main" else f"{moment.kind} {moment.level}".strip()
    reasons = f" ({', '.join(moment.reasons)})" if moment.reasons and moment.level not in {"defer", "raw"} else ""
    share = f"{max(moment.cached, 0) / moment.prompt:.0%}" if moment.prompt > 0 else "-"
    found = (
        when, moment.session, str(moment.number or ""), level + reasons, number(moment.prompt), share,
        number(moment.output), number(moment.saved) if moment.saved else "", _note(moment),
    )  # fmt: skip
    return tuple(plain(cell) for cell in found)


def _note(moment: Moment) -> str:
    notes = []
    if moment.lost > 0:
        notes.append(f"cache lost {moment.lost:,}: {moment.cause or 'unexplained'}")
    if moment.outcome not in {"", "answered"}:
        notes.append(f"{moment.outcome}{f' {moment.status}' if moment.status >= 400 else ''}")
    if moment.would:
        sent, would = moment.would.get("cost_as_sent", 0.0), moment.would.get("cost", 0.0)
        notes.append(f"cost {sent:,.0f}, with foldlog about {would:,.0f}")
    if moment.note:
        notes.append(moment.note)
    return "; ".join(notes)

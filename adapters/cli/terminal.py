"""What goes to the terminal: tables, lines, JSON and progress bars, safe whatever a session's content holds."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

WIDTH = 160
"""Of a table where nobody looks at it: wide enough that a reader of lines finds a row on one."""

WORDS = 24
"""As narrow the words of the last column may become."""
BROADEST = 10_000
"""As broad as no table is."""

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSAFE_LINES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSAFE_JSON = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def plain(text: str, *, lines: bool = False) -> str:
    """Return ``text`` with everything a terminal would act on, and half surrogate pairs, written as escapes.

    ``lines``: line feeds and tabs stay.
    """
    return (_UNSAFE_LINES if lines else _UNSAFE).sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def say(text: str = "", *, lines: bool = False) -> None:
    """Print one text."""
    typer.echo(plain(text, lines=lines))


def warn(text: str) -> None:
    """Print one text for the person, beside the result."""
    typer.echo(plain(text), err=True)


def emit(value: Any) -> None:
    """Print a value of ours as one JSON text."""
    try:
        emit_raw(msgspec.json.encode(value))
    except UnicodeEncodeError:  # a host's text with half a surrogate pair
        emit_raw(json.dumps(msgspec.to_builtins(value)).encode())


def emit_raw(line: bytes) -> None:
    """Print encoded JSON. To a terminal it goes with 8-bit controls escaped: the same value, harmless to look at."""
    if sys.stdout.isatty():
        line = _UNSAFE_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", line.decode("utf-8", "replace")).encode()
    typer.echo(line)


def raw_json(raw: bytes) -> bytes:
    """Return a host's JSON text as it is where every JSON reader takes it, else as a JSON string of it."""
    if not raw:
        return b"null"
    try:
        msgspec.json.decode(raw)
        return raw
    except (msgspec.MsgspecError, RecursionError):
        pass
    try:  # half a surrogate pair, written as an escape, is refused by some readers and JSON all the same
        json.loads(raw, parse_constant=_refuse)
        return raw
    except (ValueError, RecursionError):
        return json.dumps(raw.decode("utf-8", "surrogateescape")).encode()


def _refuse(token: str) -> None:
    raise ValueError(token)


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, right: Sequence[int] = ()) -> None:
    """Print a table; columns in ``right`` hold numbers.

    On a narrow terminal only the words of the last column are broken: rows that are too long still are the terminal's
    to wrap, as a reader finds figures again there, and does not in columns of single characters.
    """
    cells = [[plain(cell if isinstance(cell, str) else number(cell)) for cell in row] for row in rows]
    grid = Table(box=box.SIMPLE, pad_edge=False)
    for index, name in enumerate(columns):
        width = max(map(cell_len, (name, *(row[index] for row in cells))))
        if index == len(columns) - 1 and index not in right:
            width = min(width, WORDS)
        grid.add_column(name, justify="right" if index in right else "left", overflow="fold", min_width=width)
    for row in cells:
        grid.add_row(*map(Text, row))
    shown = Console(file=sys.stdout, highlight=False, emoji=False, width=None if sys.stdout.isatty() else WIDTH)
    shown.width = max(shown.width, shown.measure(grid, options=shown.options.update_width(BROADEST)).minimum)
    shown.print(grid)


def number(value: Any) -> str:
    """Return a count as people read it; ``-`` for one that is not known (below 0)."""
    if isinstance(value, bool) or not isinstance(value, int):
        return str(value)
    return f"{value:,}" if value >= 0 else "-"


def moment(ms: int) -> str:
    """Return a time in ms UTC as people read it, ``-`` for an unknown one."""
    if ms <= 0:
        return "-"
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"


@contextmanager
def progress(label: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on the error output while the block runs, if that is a terminal. ``of``: 0 = unknown."""
    if quiet or not sys.stderr.isatty():
        yield _nothing
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(plain(label), total=None)

        def advance(done: int, of: int) -> None:
            bar.update(task, completed=done, total=of or None)

        yield advance


def _nothing(done: int, of: int) -> None:
    """Where nobody looks."""

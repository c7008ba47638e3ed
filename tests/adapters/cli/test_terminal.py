"""What goes to a terminal, whatever its width, and a person who stops a question."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
import typer

from foldlog.adapters.cli import service, terminal
from support.program import run

NOTE = "emergency 12 (30,000 tokens), age 3 (2,000 tokens); said: nudge"
ROWS = [(1, "2026-01-06 02:00:20", "hard", 1_234_567, NOTE), (12, "2026-01-06 02:41:15", "defer", 5, "")]


@pytest.mark.rule("CLI-32")
@pytest.mark.parametrize("columns", [10, 40, 80, 200])
def test_no_figure_is_broken_on_a_narrow_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    terminal.table(("pass", "time", "level", "tokens", "note"), ROWS, right=(0, 3))
    lines = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out).splitlines()
    for number, time, level, tokens, _ in ROWS:
        (line,) = [line for line in lines if time in line]
        assert line.split()[:1] == [str(number)]
        assert f" {level} " in line
        assert f" {tokens:,} " in line
    note = " ".join(line[lines[1].index("note") :].strip() for line in lines[3:-1])
    assert "emergency 12 (30,000" in note, "words are broken where they end, and not into letters"
    assert max(map(len, lines)) <= max(columns, 80)


@pytest.mark.rule("CLI-20")
def test_who_stops_a_question_has_stopped_the_program(monkeypatch: pytest.MonkeyPatch):
    def stopped(*_: Any, **__: Any) -> bool:
        raise typer.Abort

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(service.typer, "confirm", stopped)
    with pytest.raises(typer.Abort):
        service.confirm("Set it up?", yes=False)
    monkeypatch.setattr("foldlog.adapters.cli.options.reading", stopped)
    result = run("sessions", db="memory:")
    assert (result.exit_code, result.stderr) == (130, "foldlog: stopped\n")

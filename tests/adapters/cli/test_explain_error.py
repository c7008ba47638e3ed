"""``explain-error`` as a person or a script calls it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from foldlog.adapters.cli import app
from support.program import process, run, value

ANTHROPIC = "prompt is too long: 208380 tokens > 200000 maximum"


@pytest.mark.rule("CLI-29")
def test_an_overflow_is_told_with_its_figures():
    told = value("explain-error", ANTHROPIC)
    assert list(told) == ["overflow", "limit", "used", "kind", "what_to_do", "provenance"]
    assert (told["overflow"], told["limit"], told["used"], told["kind"]) == (True, 200_000, 208_380, "overflow")
    assert "200,000" in told["what_to_do"]
    assert "200000 maximum" in told["provenance"]
    shown = run("explain-error", ANTHROPIC).stdout
    assert "limit: 200,000 tokens" in shown
    assert "too long for the window" in shown


@pytest.mark.rule("CLI-29", "CLI-22")
def test_what_is_not_told_is_null():
    told = value("explain-error", "--status", "429", "")
    assert (told["overflow"], told["limit"], told["used"], told["kind"]) == (False, None, None, "rate")


@pytest.mark.rule("CLI-29")
@pytest.mark.parametrize("args", [[], ["-"]])
def test_the_input_is_read_whatever_its_bytes(args: list[str]):
    body = json.dumps({"error": {"message": ANTHROPIC}}).encode() + b"\xff\x00\xed\xa0\x80"
    done = process(["explain-error", *args, "--json"], input=body, text=False)
    assert json.loads(done.stdout)["limit"] == 200_000


@pytest.mark.rule("CLI-20", "CLI-29")
def test_a_status_that_is_none_is_refused():
    result = run("explain-error", "--status", "7", "x")
    assert result.exit_code == 2
    assert "7" in result.stderr


@pytest.mark.rule("CLI-23", "CLI-29")
def test_what_a_terminal_would_act_on_is_escaped():
    shown = run("explain-error", "prompt is too long \x1b[2J: 208380 tokens > 200000 maximum").stdout
    assert "\x1b" not in shown


@pytest.mark.rule("CLI-20", "CLI-29")
@pytest.mark.parametrize("given", ["", " \n", "-"])
def test_where_nothing_is_given_nothing_is_explained(given: str):
    result = CliRunner().invoke(app, ["explain-error", given], input="  \n" if given == "-" else None)
    assert result.exit_code == 2
    assert "no error to explain" in result.stderr


@pytest.mark.rule("CLI-29")
@pytest.mark.parametrize(
    ("args", "head"),
    [
        (["--status", "413", "x"], "perhaps too long for the window (suspected)"),
        (
            ["input length and `max_tokens` exceed context limit: 150000 + 64000 > 200000"],
            "too long for the window, by the answer allowed for (output_driven)",
        ),
        (["slow down: rate limit reached"], "not an overflow of the window (rate)"),
    ],
)
def test_the_first_line_says_no_more_than_is_known(args: list[str], head: str):
    assert run("explain-error", *args).stdout.splitlines()[0] == head

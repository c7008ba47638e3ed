"""What the README shows works."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import typer

from support.house import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def shown_commands() -> list[str]:
    """Every ``foldlog …`` line of the README: in its sh blocks and as inline code."""
    lines = [line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    prose = re.sub(r"^```.*?^```", "", README, flags=re.MULTILINE | re.DOTALL)
    lines += re.findall(r"`(foldlog [^`]+)`", prose)
    return [line for line in lines if line.startswith("foldlog ")]


def cli() -> dict[str, Any]:
    """The commands of the program by name, as its own parser knows them."""
    from foldlog.adapters import cli as room

    (app,) = {id(value): value for value in vars(room).values() if isinstance(value, typer.Typer)}.values()
    group: Any = typer.main.get_command(app)
    return dict(group.commands)


def test_the_readme_shows_commands():
    assert len(shown_commands()) >= 11


@pytest.mark.parametrize("line", shown_commands())
def test_a_shown_command_exists_with_its_options(line):
    _, name, *rest = shlex.split(re.sub(r"[\[\]…]", " ", line))
    rest = rest[: rest.index("--")] if "--" in rest else rest  # what is behind it is another program's
    command = cli()[name]
    known = {option for param in command.params for option in param.opts}
    assert [word for word in rest if word.startswith("--") and word.split("=")[0] not in known] == []


def test_every_command_is_shown():
    shown = {shlex.split(re.sub(r"[\[\]…]", " ", line))[1] for line in shown_commands()}
    assert {name for name, command in cli().items() if not command.hidden} - shown == set()


def test_every_make_target_shown_exists():
    targets = set(re.findall(r"^([a-z0-9]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    shown = set(re.findall(r"(?:^|`)make ([a-z0-9]+)", README, re.MULTILINE))
    assert {"demo", "test"} <= shown
    assert shown - targets == set()


def test_embedding_takes_four_lines_and_they_run():
    (example,) = blocks("python")
    assert len(example.strip().splitlines()) == 4
    names: dict[str, Any] = {}
    exec(compile(example, "README.md", "exec"), names)
    request = names["request"]
    assert request.level == "hard"
    assert "Fix the parser." in str(request.messages)
    assert request.pass_number == 1

"""Running the command line, in this process and as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from foldlog.adapters.cli import app

CODE = "from foldlog.adapters.cli import main; main()"


def run(*args: str, db: str | None = None) -> Result:
    """Run in this process; an exception that is not an exit is raised here."""
    given = [*args, "--db", db] if db is not None else [*args]
    return CliRunner().invoke(app, given, catch_exceptions=False)


def ok(*args: str, db: str | None = None) -> str:
    """Run and return what was printed; it must succeed."""
    result = run(*args, db=db)
    assert result.exit_code == 0, (args, result.output)
    return result.stdout


def value(*args: str, db: str | None = None) -> Any:
    """Run with --json and return the decoded result; it must succeed."""
    return json.loads(ok(*args, "--json", db=db))


def command(*args: str) -> list[str]:
    """Return the command line of a fresh process; it works where the package is not installed too."""
    return [sys.executable, "-c", CODE, *args]


def environment() -> dict[str, str]:
    """Return an environment in which a fresh process finds the package these tests run on."""
    import foldlog

    above = str(Path(foldlog.__file__ or "").parent.parent)
    paths = [path for path in sys.path if path and (Path(path) / "foldlog").exists()] or [above]
    known = [*paths, os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, known))}  # an empty entry is the working folder


def process(args: Sequence[str], **how: Any) -> subprocess.CompletedProcess[str]:
    """Run a fresh process and return what became of it."""
    named = {"capture_output": True, "text": True, "timeout": 120, "env": environment(), **how}
    return subprocess.run(command(*args), **named)

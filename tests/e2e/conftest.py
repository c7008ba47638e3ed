"""The hosts as fixtures: each runs its long session once alone and once with foldlog; tests look at what came of it."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from e2e import scripts
from e2e.hosts.base import NODE_MODULES
from e2e.stage import Stage, stage

HOSTS = ("claude", "codex", "opencode", "pi", "omp")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a host: ``make test`` leaves it out."""
    for item in items:
        if "host" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session", params=HOSTS)
def host(request: pytest.FixtureRequest) -> ModuleType:
    """One host's module; skipped where it is not installed."""
    module = importlib.import_module(f"e2e.hosts.{request.param}")
    if not (NODE_MODULES / module.PACKAGE).is_dir():
        pytest.skip(f"{module.PACKAGE} is not in {NODE_MODULES}: `make e2e` installs the hosts")
    return module


def version(host: ModuleType) -> str:
    """Return the installed version of a host."""
    manifest = NODE_MODULES / host.PACKAGE / "package.json"
    return str(json.loads(manifest.read_text(encoding="utf-8"))["version"])


def play_long(made: Stage, *, resumed_at: int = 25) -> None:
    """The long session in two turns."""
    made.play(scripts.PROMPT.format(track="main", step=0))
    session = made.host.session_of(made.ran[-1])
    made.play(scripts.PROMPT.format(track="main", step=resumed_at), session)


@pytest.fixture(scope="session")
def alone(host: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The long session of a host without foldlog."""
    root = tmp_path_factory.mktemp(f"{host.NAME}-alone")
    with stage(root, host, lambda work: scripts.long(work, host.WINDOW), managed=False) as made:
        play_long(made)
        yield made


def note(name: str, value: object) -> None:
    """Leave a result for the table of ``make e2e``."""
    folder = os.environ.get("FOLDLOG_E2E_RESULTS")
    if folder:
        (Path(folder) / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")

"""The hosts as fixtures: each runs its long session once alone and once with foldlog; tests look at what came of it."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from e2e import measure, scripts
from e2e.hosts import claude, codex, omp, pi
from e2e.hosts.base import NODE_MODULES
from e2e.stage import Stage, stage, when

from foldlog import Engine

HOSTS = ("claude", "codex", "opencode", "pi", "omp")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a host: ``make test`` leaves it out."""
    for item in items:
        if "host" in getattr(item, "fixturenames", ()) or "opencode" in item.name:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session", params=HOSTS)
def host(request: pytest.FixtureRequest) -> ModuleType:
    """One host's module; skipped where it is not installed, but not by ``make e2e``, which installs it."""
    module = importlib.import_module(f"e2e.hosts.{request.param}")
    if not (NODE_MODULES / module.PACKAGE).is_dir():
        missing = f"{module.PACKAGE} is not in {NODE_MODULES}: `make e2e` installs the hosts"
        if os.environ.get("FOLDLOG_E2E_RESULTS"):
            pytest.fail(missing)
        pytest.skip(missing)
    return module


def sees(host: ModuleType) -> str:
    """Return the name of a host's model that takes pictures, where not every one does: none is made of the history."""
    return host.MODEL + pi.SEES if host in {pi, omp} else ""


def version(host: ModuleType) -> str:
    """Return the installed version of a host."""
    manifest = NODE_MODULES / host.PACKAGE / "package.json"
    return str(json.loads(manifest.read_text(encoding="utf-8"))["version"])


@pytest.fixture(scope="session")
def alone(host: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The long session of a host without foldlog. What it sends behind its own compaction is not judged: one host puts
    thinking behind its summary there.
    """
    root = tmp_path_factory.mktemp(f"{host.NAME}-alone") / "r"
    script = lambda work: msgspec.structs.replace(scripts.long(work, host.WINDOW), check=False)  # noqa: E731
    with stage(root, host, script, managed=False) as made:
        made.play(scripts.PROMPT.format(track="main", step=0))
        session = host.session_of(made.ran[-1])
        made.rest()
        made.play(scripts.PROMPT.format(track="main", step=scripts.STOP + 1), session)
        note(made, measure.measured(measure.main(made.records), made.records), "no")
        yield made


@pytest.fixture(scope="session")
def managed(host: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The long session of a host with foldlog, which crashes in the first turn; the host crashes in the second."""
    root = tmp_path_factory.mktemp(f"{host.NAME}-managed") / "r"
    with stage(root, host, lambda work: scripts.long(work, host.WINDOW), managed=True, model=sees(host)) as made:
        with when(made, 9, made.crash):
            made.play(scripts.PROMPT.format(track="main", step=0))
        session = host.session_of(made.ran[-1])
        made.rest()
        with when(made, scripts.KILLED, made.kill_host):
            made.play(scripts.PROMPT.format(track="main", step=scripts.STOP + 1), session)
        made.play(scripts.PROMPT.format(track="main", step=scripts.KILLED + 1), session)
        asked = measure.main(made.records, measure.rows(made.db))
        note(made, measure.measured(asked, made.records), "yes")
        yield made


@pytest.fixture(scope="session")
def full(host: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A session with pictures that gets full, and one its provider refuses, nobody summarising. Where a turn ended with
    the provider's refusal of pictures, the second one goes on.
    """
    root = tmp_path_factory.mktemp(f"{host.NAME}-full") / "r"
    script = lambda work: scripts.full(work, host.WINDOW)  # noqa: E731
    with stage(root, host, script, managed=True, summarizer="none", model=sees(host)) as made:
        if host is codex:
            codex.widen(made.room)
        shot = lambda number: (made.room.work / f"shot{number}.png",)  # noqa: E731
        made.play(scripts.PROMPT.format(track="main", step=0), pictures=shot(0))
        session = host.session_of(made.ran[-1])
        with (
            Engine.open(f"sqlite:///{made.db}", summarizer=None) as engine,
            when(made, scripts.FLUSHED, engine.session(session, host.NAME).flush),
        ):
            made.play(scripts.PROMPT.format(track="main", step=scripts.SECOND), session, pictures=shot(4))
        began = 1 if host is claude else 0  # what can be compacted one host compacts itself, behind everybody's back
        made.play(scripts.PROMPT.format(track="none", step=began))
        made.play(scripts.PROMPT.format(track="none", step=1), host.session_of(made.ran[-1]))
        yield made


def note(made: Stage, figures: measure.Measured, managed: str) -> None:
    """Leave a line for the table of ``make e2e``."""
    folder = os.environ.get("FOLDLOG_E2E_RESULTS")
    if folder:
        row = {"host": made.host.NAME, "version": version(made.host), "foldlog": managed, **asdict(figures)}
        (Path(folder) / f"row-{made.host.NAME}-{managed}.json").write_text(json.dumps(row), encoding="utf-8")

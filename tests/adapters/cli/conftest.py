"""A store with a played session in it, made once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import foldlog
from foldlog.adapters.simulate.play import Played, Playing, play
from foldlog.adapters.traces.generator import generate


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Played]:
    """A closed SQLite store with one played session, and what the play said."""
    path = tmp_path_factory.mktemp("store") / "played.db"
    with foldlog.Engine.open(f"sqlite:///{path}", summarizer=None) as engine:
        played = play(engine, generate(7, 90), Playing(session="played", window=110_000))
    return path, played


@pytest.fixture
def played(template: tuple[Path, Played]) -> Played:
    return template[1]


@pytest.fixture
def store(template: tuple[Path, Played], tmp_path: Path) -> Path:
    """A copy of that store that a test may damage."""
    path = tmp_path / "store.db"
    shutil.copy(template[0], path)
    return path


@pytest.fixture
def db(store: Path) -> str:
    return f"sqlite:///{store}"

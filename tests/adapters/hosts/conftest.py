"""A link process of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from foldlog import Engine
from foldlog.adapters.config import Config
from support.linked import Client, Running, runtime_folder


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with runtime_folder(monkeypatch) as made:
        yield made


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Running]]:
    """Return what starts a process; all are ended with the test."""
    running: list[Running] = []

    def begin(url: str = "memory:", tcp: bool = False, make: Any = None, **config: Any) -> Running:
        made = Running(Config(db=url, **config), make or (lambda _: Engine.open(url, None)), tcp=tcp)
        running.append(made)
        return made

    yield begin
    for one in running:
        one.stop()


@pytest.fixture
def connect() -> Iterator[Callable[..., Client]]:
    """Return what connects to a process; every connection is closed with the test."""
    made: list[Client] = []

    def begin(*given: Any, **named: Any) -> Client:
        made.append(Client(*given, **named))
        return made[-1]

    yield begin
    for one in made:
        one.close()

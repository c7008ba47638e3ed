"""The three stores, for the shared contract test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.stores import Kit, MemoryKit, PostgresKit, SQLiteKit


@pytest.fixture(params=["sqlite", "memory", "postgresql"])
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kit]:
    """Return an empty store of each kind."""
    made: Kit
    if request.param == "sqlite":
        made = SQLiteKit(tmp_path / "log.db")
    elif request.param == "memory":
        made = MemoryKit()
    else:
        made = PostgresKit(request.getfixturevalue("pg_url"))
    yield made
    made.close()

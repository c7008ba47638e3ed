"""What all tests share: ``tests/`` on the path for ``support``, and one PostgreSQL server a session."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.insert(0, _HERE)

# The server's package warns where there is no runtime folder (convention 29).
os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())


@pytest.fixture(scope="session")
def pg_server(request: pytest.FixtureRequest) -> Iterator[Callable[[], str]]:
    """Start the server once; a call returns the URL of a fresh, empty database."""
    from support.pg import server, version

    capture = request.config.pluginmanager.getplugin("capturemanager")
    with server() as fresh:
        if capture is not None:
            # The version is to be seen in a passing run too.
            with capture.global_and_fixture_disabled():
                print(f"\n{version(fresh())}")
        yield fresh


@pytest.fixture
def pg_url(pg_server: Callable[[], str]) -> str:
    """Return the URL of a fresh, empty database."""
    return pg_server()

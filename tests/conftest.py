"""What all tests share: ``tests/`` on the path for ``support``, and one PostgreSQL server a session."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.insert(0, _HERE)

# The server's package warns where there is no runtime folder of mode 0700 (convention 29); it reads it when imported.
_RUNTIME = tempfile.mkdtemp(prefix="foldlog-run-")
atexit.register(shutil.rmtree, _RUNTIME, ignore_errors=True)
os.environ["XDG_RUNTIME_DIR"] = _RUNTIME

# The same examples in every run, so that what turns red is the change's doing; `make soak` draws new ones.
settings.register_profile("same", derandomize=True)
settings.register_profile("fresh", print_blob=True)
settings.load_profile("same")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the server, by its fixtures or by the store it is given: `make quick` leaves it out."""
    for item in items:
        given = getattr(item, "callspec", None)
        named = given is not None and "postgresql" in given.params.values()
        if named or "pg_server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.postgres)


@pytest.fixture(scope="session")
def pg_server(request: pytest.FixtureRequest) -> Iterator[Callable[[], str]]:
    """Start the server once, and print its version; a call returns the URL of a fresh, empty database."""
    from support.pg import server, version

    capture = request.config.pluginmanager.getplugin("capturemanager")
    with server() as fresh:
        if capture is not None:
            # The version is to be seen in a passing run too.
            with capture.global_and_fixture_disabled():
                print(f"\n{version(fresh())}")
        yield fresh


@pytest.fixture(scope="session")
def _pg_scratch(pg_server: Callable[[], str]) -> str:
    return pg_server()


@pytest.fixture
def pg_url(_pg_scratch: str) -> str:
    """Return the URL of an empty database; a test that needs two asks ``pg_server`` for more."""
    from support.pg import wipe

    # Wiped, not made: the server writes 7 MB for each new database, which cost most of the time of these tests.
    wipe(_pg_scratch)
    return _pg_scratch

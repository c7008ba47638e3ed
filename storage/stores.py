"""Opening a store by its URL."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from ..domain.errors import OptionError, StoreUnavailable
from .backend import Backend, Hook
from .store import Store

ENV = "FOLDLOG_DB"
FILE = "foldlog.db"
FORMS = "sqlite:///path/to/file, postgresql://user@host/database, memory:"


def open_store(url: str | None = None, hook: Hook | None = None) -> Store:
    """Open the store at ``url``; None: ``FOLDLOG_DB`` (a URL or a plain path), else the user's data folder.

    ``hook`` is called with ``before``, ``inside`` and ``after`` at every append (for tests of faults). Raises
    ``OptionError`` for another kind of URL, ``StoreUnavailable``, ``StoreNewer``.
    """
    return Store(_backend(default_url() if url is None else url), hook)


def default_url() -> str:
    """Return the URL that is meant where none is given."""
    given = os.environ.get(ENV, "")
    if given:
        return given if "://" in given or given == "memory:" else f"sqlite:///{given}"
    return f"sqlite:///{platformdirs.user_data_path('foldlog') / FILE}"


def place(given: str, where: str = "url") -> Path:
    """Return the path a person gave, ``~`` resolved. Raises ``OptionError`` for the home of somebody unknown."""
    try:
        return Path(given).expanduser()
    except RuntimeError:
        raise OptionError("nobody of that name has a home folder on this machine", value=given, where=where) from None


def _backend(url: str) -> Backend:
    if not isinstance(url, str):
        raise OptionError(f"a store is named by a URL, one of: {FORMS}", value=url, where="url")
    if not url.isprintable():
        raise OptionError("the URL holds characters no path or address can have", value=url, where="url")
    if url == "memory:":
        from .memory import MemoryBackend

        return MemoryBackend()
    if url.startswith("sqlite:///"):
        path = url.removeprefix("sqlite:///")
        if not path or path == ":memory:" or "\x00" in path:
            raise OptionError(f"the URL names no file; a store is one of: {FORMS}", value=url, where="url")
        from .sqlite import SQLiteBackend

        return SQLiteBackend(place(path))
    if url.startswith("postgresql://"):
        try:
            from .postgres import PostgresBackend
        except ImportError as error:
            raise StoreUnavailable(
                "PostgreSQL needs the extra packages of `pip install 'foldlog[postgres]'`", value=str(error)
            ) from error
        return PostgresBackend(url)
    said = f"foldlog knows no store of this kind; a store is one of: {FORMS}"
    if "://" not in url:
        said += f"; a file of that name is sqlite:///{url}"
    raise OptionError(said, value=url, where="url")

"""The log files of processes that have no terminal of their own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TextIO

import platformdirs

LONGEST = 4 * 1024 * 1024
"""Bytes from which a log is begun anew; the one before is kept."""


@contextlib.contextmanager
def log_file(name: str) -> Iterator[TextIO]:
    """Give the file ``name.log`` in the user's log folder, this user's alone; nowhere, where it cannot be written."""
    path = platformdirs.user_log_path("foldlog") / f"{name}.log"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > LONGEST:
            path.replace(path.with_suffix(".log.1"))
        handle = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    except OSError:
        handle = os.open(os.devnull, os.O_WRONLY)
    with os.fdopen(handle, "a", encoding="utf-8", buffering=1) as file:
        yield file

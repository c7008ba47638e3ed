"""Whether the process that holds a lease is still there.

An owner has a file in the folder of this user's running processes, and its lock for as long as it lives. A lock ends
with its process, however that ends; a process id may be given to another one, and says nothing in another container.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from contextlib import suppress
from pathlib import Path

from ..domain.errors import FoldlogError
from . import local

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LEFT_S = 86_400
"""Files of owners that are gone, and so old, are cleared away."""


class Owner:
    """One that takes leases, by its ``name``. Its file is made with the first of them."""

    def __init__(self) -> None:
        self.name = secrets.token_urlsafe(9)
        self._handle = -1
        self._closed = False

    def claim(self) -> None:
        """Make it known that this process lives. Where it cannot, its leases end by their time alone."""
        if self._handle >= 0 or self._closed:
            return
        with suppress(FoldlogError, OSError):
            _sweep()
            handle = os.open(_file(self.name), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            if local.locked(handle):
                self._handle = handle
            else:
                os.close(handle)
                forget(self.name)  # a file that nobody holds says that this process is gone

    def close(self, *, working: bool) -> None:
        """Go for good. ``working``: a lease of its own still runs, and anybody may take it."""
        handle, self._handle, self._closed = self._handle, -1, True
        if handle < 0:
            return
        os.close(handle)
        if not working:
            forget(self.name)


def gone(name: str) -> bool:
    """Whether an owner's process has surely ended: its file is on this machine, and nobody holds it."""
    if not _NAME.fullmatch(name):
        return False
    try:
        handle = os.open(_file(name), os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except (FoldlogError, OSError):
        return False  # another machine's, another user's, or one that could not make it known
    try:
        return local.locked(handle)
    finally:
        os.close(handle)


def forget(name: str) -> None:
    """Take away the file of an owner that is gone."""
    with suppress(FoldlogError, OSError):
        _file(name).unlink()


def _file(name: str) -> Path:
    return local.runtime_folder() / f"owner-{name}.lock"


def _sweep() -> None:
    until = time.time() - _LEFT_S
    for path in local.runtime_folder().glob("owner-*.lock"):
        name = path.name.removeprefix("owner-").removesuffix(".lock")
        with suppress(OSError):
            if path.stat().st_mtime < until and gone(name):
                path.unlink()

"""Where the link process listens, that there is one of it, and who may call (``specs/link.md``)."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...domain.errors import OptionError
from .. import local

SOCKET, FILE, LOCK = "link.sock", "link.json", "link.lock"
LONGEST_PATH = 100
"""Bytes of a Unix socket's path that every system takes."""
_LOCAL_PEERCRED = 1
"""``<sys/un.h>`` of macOS and the BSDs: the option that returns a peer's ``xucred``."""


def run_file() -> Path:
    """Return where the running link process says how it is reached."""
    return local.runtime_folder() / FILE


def running() -> local.Run | None:
    """Return the link process of this user, None where none answers."""
    run = local.read(run_file())
    return run if run is not None and local.alive(run) else None


def socket_path() -> Path:
    """Return the path of the socket. Raises ``OptionError`` where the system takes no path as long."""
    path = local.runtime_folder() / SOCKET
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise OptionError(
            f"a socket's path may have {LONGEST_PATH} bytes; set XDG_RUNTIME_DIR to a folder with a shorter path",
            value=str(path),
            where="XDG_RUNTIME_DIR",
        )
    return path


@contextmanager
def alone() -> Iterator[bool]:
    """Hold the lock of the one link process while the block runs; False where another process holds it."""
    path = local.runtime_folder() / LOCK
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        yield local.locked(handle)
    finally:
        os.close(handle)  # the lock goes with it, however the process ends


def bound(path: Path) -> socket.socket:
    """Return a socket bound to ``path``, mode 0600. One that a dead process left there is replaced: hold the lock."""
    with suppress(FileNotFoundError):
        path.unlink()
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        made.bind(str(path))
    except BaseException:
        made.close()
        raise
    finally:
        os.umask(before)
    path.chmod(0o600)
    return made


def stranger(peer: Any) -> bool:
    """Whether the process behind a Unix socket belongs to another user; what the system does not tell counts as one."""
    found = peer_uid(peer)
    return found is None or found != os.geteuid()


def peer_uid(peer: Any) -> int | None:
    """Return the user id of the process behind a Unix socket, None where the system does not tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    try:
        if option is not None:
            size = struct.calcsize("3i")
            return int(struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, option, size))[1])
        raw = peer.getsockopt(0, _LOCAL_PEERCRED, 128)  # struct xucred: its version, then the user id
        return int(struct.unpack_from("=II", raw)[1])
    except (OSError, struct.error):
        return None

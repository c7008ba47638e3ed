"""What foldlog's own processes leave for each other on this machine: run files in a folder only this user can open."""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import socket
import stat
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

import msgspec
import platformdirs

from ..domain.errors import FoldlogError, OptionError

PROXY_ENV = "FOLDLOG_PROXY"
"""Names the running proxy: its port, its address, or the path of its run file."""
LARGEST = 64 * 1024
_WINDOWS = sys.platform == "win32"


class Run(msgspec.Struct, frozen=True):
    """A running process of foldlog: where it listens and what a caller must show. ``socket``: a path, where it has one.

    ``token`` is the bearer token of everything under ``/foldlog/``; it never leaves this file. ``passing``: it ends
    with the one command it serves, so nothing else may rely on it.
    """

    port: int
    pid: int
    token: str
    version: str
    socket: str = ""
    host: str = "127.0.0.1"
    passing: bool = False

    @property
    def url(self) -> str:
        """The address a client is pointed to."""
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


def new_token() -> str:
    """Return a token nobody can guess."""
    return secrets.token_urlsafe(32)


def same_token(given: str, token: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def runtime_folder() -> Path:
    """Return the folder of run files and sockets, made if need be, with mode 0700.

    Raises ``FoldlogError`` (``RUNTIME_FOLDER``) where it cannot be made or is not this user's alone.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that XDG_RUNTIME_DIR is not set: what is used instead is looked at below
        folder = platformdirs.user_runtime_path("foldlog")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _WINDOWS:
            _own(folder)
    except OSError as error:
        raise _unusable(f"the folder for running processes cannot be used: {error}", folder) from None
    return folder


def _own(folder: Path) -> None:
    """Refuse a folder that another user made or could exchange; tighten one of our own that is open to others."""
    for place in (folder, folder.parent):
        found = place.lstat()
        mine = found.st_uid == os.geteuid() or (place != folder and found.st_uid == 0)
        open_to_all = place != folder and found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
        if not mine or stat.S_ISLNK(found.st_mode) or open_to_all:
            raise _unusable(
                "the folder for running processes belongs to, or is open to, another user; set XDG_RUNTIME_DIR to a "
                "folder of your own with mode 0700",
                place,
            )
    if folder.lstat().st_mode & 0o077:
        folder.chmod(0o700)


def _unusable(message: str, place: Path) -> FoldlogError:
    return FoldlogError(message, value=str(place), code="RUNTIME_FOLDER")


def proxy_file(port: int) -> Path:
    """Return the run file of the proxy on ``port``."""
    return runtime_folder() / f"proxy-{port}.json"


def write(path: Path, run: Run) -> None:
    """Write a run file at one stroke, readable by this user alone (0600). Raises ``OSError``."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(run))
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def read(path: Path) -> Run | None:
    """Return what a run file says; None where it is absent, unreadable, or not this user's alone."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
            return None
        if not _WINDOWS and (found.st_uid != os.geteuid() or found.st_mode & 0o077):
            return None
        try:
            return msgspec.json.decode(file.read(LARGEST), type=Run)
        except (msgspec.MsgspecError, OSError):
            return None


def locked(handle: int) -> bool:
    """Take the lock of an open file; False where another process has it. It ends when the file is closed."""
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def remove(path: Path, pid: int | None = None) -> None:
    """Remove the run file of process ``pid`` (None: of this one); another process' file at that place stays."""
    found = read(path)
    if found is not None and found.pid == (os.getpid() if pid is None else pid):
        with contextlib.suppress(OSError):
            path.unlink()


def alive(run: Run) -> bool:
    """Whether that process is there and answers on its port or socket. Asks no question, so it is quick."""
    if not _WINDOWS:
        try:
            os.kill(run.pid, 0)
        except (OSError, OverflowError):  # gone, or of another user: not one of ours
            return False
    try:
        if run.socket and hasattr(socket, "AF_UNIX"):
            with socket.socket(socket.AF_UNIX) as link:
                link.settimeout(1.0)
                link.connect(run.socket)
        else:
            socket.create_connection((run.host, run.port), timeout=1.0).close()
    except (OSError, ValueError):
        return False
    return True


def proxies() -> list[Run]:
    """Return the running proxies of this user, by port. Files of processes that are gone are cleared away."""
    found = []
    for path in sorted(runtime_folder().glob("proxy-*.json")):
        run = read(path)
        if run is not None and alive(run):
            found.append(run)
        elif run is not None and not _there(run.pid):
            with contextlib.suppress(OSError):
                path.unlink()
    return sorted(found, key=lambda run: run.port)


def _there(pid: int) -> bool:
    if _WINDOWS:
        return True  # asking would end the process there; the file is overwritten by the next proxy on that port
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def proxy(port: int | None = None, environ: Mapping[str, str] | None = None) -> Run | None:
    """Return the running proxy that is meant: on ``port``, or named by ``FOLDLOG_PROXY``, else the only one.

    None where there is none. Raises ``OptionError`` for a name that is none, and where several run and none is named.
    """
    named = (os.environ if environ is None else environ).get(PROXY_ENV, "")
    if port is None and named:
        path = Path(named)
        if path.is_absolute():
            run = read(path)
            return run if run is not None and alive(run) else None
        digits = named.rstrip("/").rpartition(":")[2]
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 5):
            raise OptionError(
                "a proxy is named by its port, its address or its run file, such as 4141", value=named, where=PROXY_ENV
            )
        port = int(digits)
    running = proxies()
    if port is not None:
        return next((run for run in running if run.port == port), None)
    if len(running) > 1:
        ports = ", ".join(str(run.port) for run in running)
        raise OptionError(f"several proxies of yours are running, on the ports {ports}; name one by --port")
    return running[0] if running else None

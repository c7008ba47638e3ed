"""Parts that break: those that decide what is sent stop the pass, others are left out of it and told to the log.

A pass either fails with an error of ours or goes out whole (PROP-11); a defect beside it costs nobody a turn.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .domain.errors import FoldlogError, PassFailed, how

LEFT_OUT = "a part broke and was left out: the turn goes on"
STOPPED = "a defect of foldlog: the pass was stopped"
HOSTS = "the host's own function broke: nothing depends on it"


@contextlib.contextmanager
def deciding(stream: str, part: str) -> Iterator[None]:
    """Turn whatever else breaks in a part that decides what is sent into a ``PassFailed``; the log is told (FAIL-2)."""
    try:
        yield
    except PassFailed as error:
        _log(STOPPED, stream, error.part, how(error.__cause__ or error))
        raise
    except FoldlogError:
        raise
    except Exception as error:
        _log(STOPPED, stream, part, how(error))
        raise PassFailed(part, error) from error


@contextlib.contextmanager
def beside(stream: str, part: str) -> Iterator[None]:
    """Let a part break that changes nothing of what is sent; the log is told (FAIL-3)."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, the request is made already
        tell(stream, [(part, how(error))])


@contextlib.contextmanager
def helping(stream: str, part: str) -> Iterator[None]:
    """Let a part break that a pass can do without; the log is told. An error of ours is no defect and is raised."""
    try:
        yield
    except FoldlogError:
        raise
    except Exception as error:  # noqa: BLE001 - the pass goes on as if the help had not come
        tell(stream, [(part, how(error))])


def notice(stream: str, waiting: Callable[[str], None] | None) -> Callable[[str], None]:
    """Return the host's function that is told something for its person; what it raises is logged and no more."""

    def told(words: str) -> None:
        try:
            if waiting is not None:
                waiting(words)
        except Exception as error:  # noqa: BLE001 - foreign code, and a notice alone
            _log(HOSTS, stream, "waiting", how(error))

    return told


def tell(stream: str, parts: Iterable[tuple[str, str]], number: int = 0) -> None:
    """Log parts that were left out, each with how it broke. ``number``: of which pass, 0 = of none."""
    for part, said in parts:
        _log(LEFT_OUT, stream, part, said, number=number)


def warn(said: str) -> None:
    """Log what went wrong beside the passes and is tried again: a summary that did not come."""
    _logger().warning(said)


def _log(what: str, stream: str, part: str, said: str, **more: int) -> None:
    _logger().error(what, part=part, error=said, session=stream, **more)


def _logger() -> Any:
    import structlog  # loaded where something broke: it costs a start nothing

    if structlog.is_configured():
        return structlog.get_logger("foldlog.engine")
    return structlog.wrap_logger(structlog.PrintLogger(sys.stderr))  # its host's standard output stays its own

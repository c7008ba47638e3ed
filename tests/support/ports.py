"""Fakes of what an engine may ask: notes that wait, and a search. Each counts its calls and does what it is told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import foldlog

LONG_AGO = 1_000_000_000_000
"""A wall clock before every test, in ms."""


class Notes:
    """``says``: what waits, or what is to happen when asked."""

    def __init__(self, notes: int = 1, ready: int = 0, changed_ms: int = LONG_AGO) -> None:
        self.says: Any = foldlog.Waiting(notes, ready, changed_ms)
        self.calls: list[str] = []

    def waiting(self, session: str) -> Any:
        self.calls.append(session)
        return self.says() if callable(self.says) else self.says


class Search:
    """``says``: what is found, or what is to happen when asked."""

    def __init__(self, *found: Any) -> None:
        self.says: Any = found
        self.calls: list[tuple[str, str, int, float]] = []

    def search(self, query: str, session: str, limit: int, timeout: float) -> Iterable[Any]:
        self.calls.append((query, session, limit, timeout))
        return self.says() if callable(self.says) else self.says

    @property
    def queries(self) -> list[str]:
        return [query for query, *_ in self.calls]


def found(text: str = "the parser lives in src/parse", score: float = 0.9, kind: str = "memory", **more: Any) -> Any:
    """Return something a search found."""
    return foldlog.Found(kind, text, score, **more)


class Hang:
    """Never answers, until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.begun = 0

    def __call__(self) -> Any:
        self.begun += 1
        self.let_go.wait(30)
        return ()


def broken(error: Callable[[], BaseException] = lambda: KeyError("what nobody thought of")) -> Callable[[], Any]:
    """Return what raises ``error`` when asked."""

    def raises() -> Any:
        raise error()

    return raises

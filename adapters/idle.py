"""A clock beside sessions: says when one has been silent for longer than its provider keeps the cache."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

TICK = 1.0
"""Seconds between two looks at the clock: a lifetime is minutes."""
LONGEST = 24 * 3_600.0
"""Seconds; a cache that lives longer is waited for by nobody."""


class IdleClock:
    """Calls ``fire(name)`` once when a name was not touched for its time. Touching costs no thread and no lock wait.

    The thread starts with the first touch and ends with ``close``; it never keeps a process alive.
    """

    def __init__(self, fire: Callable[[str], None], now: Callable[[], float] = time.monotonic) -> None:
        self._fire = fire
        self._now = now
        self._due: dict[str, float] = {}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def touch(self, name: str, seconds: float) -> None:
        """Say that ``name`` was just used and is idle after ``seconds``."""
        if seconds > LONGEST or self._closed.is_set():
            self._due.pop(name, None)
            return
        self._due[name] = self._now() + seconds
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="foldlog-idle", daemon=True)
                    self._thread.start()

    def close(self) -> None:
        """Fire no more."""
        self._closed.set()

    def due(self) -> list[str]:
        """Return the names whose time is up, and forget them."""
        now = self._now()
        found = sorted(name for name, at in list(self._due.items()) if at <= now)
        for name in found:
            self._due.pop(name, None)
        return found

    def _run(self) -> None:
        while not self._closed.wait(TICK):
            for name in self.due():
                self._fire(name)

"""The store behind the link: opened when first needed, tried again where it cannot be (``specs/link.md``)."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ...api import Engine
from ...domain.errors import FoldlogError

PROBE_EVERY = 5
"""A store that could not be opened is tried again on every so manyth call."""
_REMEDIES = {
    "STORE_NEWER": "update foldlog (the store was written by a newer one), then send the message again",
    "STORE_UNAVAILABLE": "`foldlog verify` shows what is wrong with the store; its place is `db` in the configuration",
    "STORE_DAMAGED": "`foldlog verify --repair` mends what can be mended",
}


class Opened:
    """An engine, once it could be opened. Thread-safe."""

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._failed: FoldlogError | None = None
        self._asked = 0

    def engine(self) -> Engine:
        """Return the engine. Raises the error of the last try to open it; every fifth call tries anew."""
        with self._lock:
            if self._engine is not None:
                return self._engine
            if self._failed is not None:
                self._asked += 1
                if self._asked % PROBE_EVERY:
                    raise self._failed
            try:
                self._engine = self._make()
            except FoldlogError as error:
                self._failed = error
                raise
            self._failed, self._asked = None, 0
            return self._engine

    def close(self) -> None:
        """Release the store, if it is open."""
        with self._lock:
            if self._engine is not None:
                self._engine.close()
                self._engine = None


def remedy(error: FoldlogError) -> str:
    """Return what a person does about a failure of the store, empty where the error says it itself."""
    return _REMEDIES.get(error.code, "")

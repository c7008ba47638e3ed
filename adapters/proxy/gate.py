"""The store behind the proxy: opened once, probed again where it cannot be used, and no pass goes by it meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from ...api import Engine
from ...domain.errors import FoldlogError, OptionError, StoreNewer, StoreUnavailable
from .refuse import BLOCKED

PROBE_EVERY = 5
"""Every so many refused passes the store is tried again (``transform.md`` 7.3)."""

T = TypeVar("T")


class Blocked(FoldlogError):
    """The store cannot be used, so no primary pass is sent. ``cause``: what the store said."""

    code = BLOCKED

    def __init__(self, cause: FoldlogError) -> None:
        self.cause = cause
        if isinstance(cause, StoreNewer):
            what = "Update foldlog (pip install --upgrade foldlog) and restart the proxy"
        elif isinstance(cause, OptionError):
            what = "Correct `db` in the configuration, or FOLDLOG_DB, and restart the proxy"
        else:
            what = "Run `foldlog verify` to see what is wrong with it; the proxy tries again by itself"
        super().__init__(
            f"the store cannot be used: {cause}. Nothing was sent, since this session would go on unrecorded. {what}."
        )


class Gate(Generic[T]):
    """Opens the store when it is first needed. ``made``: what lives and dies with an open store, such as its sessions.

    Thread-safe. While the store is unusable every call raises ``Blocked``, and every fifth tries again.
    """

    def __init__(self, opening: Callable[[], Engine], made: Callable[[Engine], T]) -> None:
        self._opening = opening
        self._made = made
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._value: T | None = None
        self._fault: FoldlogError | None = None
        self._refused = 0

    @property
    def ready(self) -> T | None:
        """What an open store gives, None where it is not open."""
        return self._value if self._fault is None else None

    @property
    def fault(self) -> FoldlogError | None:
        """Why the store cannot be used, None where it can or was not needed yet."""
        return self._fault

    def enter(self) -> T:
        """Return what an open store gives. Raises ``Blocked``."""
        with self._lock:
            if self._value is not None and self._fault is None:
                return self._value
            if self._fault is not None:
                self._refused += 1
                if self._refused % PROBE_EVERY:
                    raise Blocked(self._fault)
            try:
                engine = self._opening()
            except (StoreUnavailable, StoreNewer, OptionError) as error:
                self._fault = error
                raise Blocked(error) from None
            if self._engine is not None:
                self._engine.close()
            self._engine, self._value, self._fault, self._refused = engine, self._made(engine), None, 0
            return self._value

    def shut(self, error: FoldlogError) -> Blocked:
        """Say that the store failed under a pass in a way that waiting does not mend; return the pass's refusal."""
        with self._lock:
            self._fault = error
            return Blocked(error)

    def close(self) -> None:
        """Release the store."""
        with self._lock:
            engine, self._engine, self._value = self._engine, None, None
        if engine is not None:
            engine.close()

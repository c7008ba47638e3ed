"""A meter that may break: what an answer cost is worth knowing, and never worth the answer."""

from __future__ import annotations

import structlog

from ...defects import LEFT_OUT
from ...domain.errors import place
from .protocols.base import Meter, Usage

log = structlog.get_logger("foldlog.proxy")


class Careful:
    """Reads an answer beside its way to the client. Where reading breaks it reads no more, and the log is told."""

    def __init__(self, meter: Meter) -> None:
        self._meter: Meter | None = meter
        self._told = Usage()

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        if self._meter is not None:
            try:
                self._meter.feed(chunk)
            except Exception as error:  # noqa: BLE001 - whatever it is, the answer goes on (FAIL-3)
                self._broke(error)

    def result(self) -> Usage:
        """Return what was told so far."""
        if self._meter is not None:
            try:
                self._told = self._meter.result()
            except Exception as error:  # noqa: BLE001 - as above (FAIL-3)
                self._broke(error)
        return self._told

    def _broke(self, error: Exception) -> None:
        self._meter = None
        log.error(LEFT_OUT, part="usage", error=type(error).__name__, at=place(error))

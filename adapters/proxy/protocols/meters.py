"""What the meters of all wires share: pieces in, figures out; each wire says what a JSON text and an event tell."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from .base import Usage
from .events import Answer


class Told(ABC):
    """A meter (``base.Meter``) but for what its wire says. ``skip``: beginnings of events not worth decoding."""

    def __init__(self, skip: tuple[bytes, ...] = ()) -> None:
        self._answer = Answer(self._whole, self._event, skip)
        self._usage: dict[str, Any] = {}
        self._calls: dict[str, str] = {}
        self._said: dict[str, Any] = {}

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._answer.feed(chunk)

    def result(self) -> Usage:
        """Return what was told so far."""
        self._answer.end()
        return Usage(**self._usage, **self._said, calls=tuple(self._calls.items()))

    @abstractmethod
    def _whole(self, value: Any, raw: bytes) -> None:
        """Take in an answer that is one JSON text."""

    @abstractmethod
    def _event(self, value: Any, raw: bytes) -> None:
        """Take in the data of one event."""

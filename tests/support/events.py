"""Small events and chunks for storage tests: the store does not care what they mean."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from foldlog.domain.events import Event, FlushRequested, PolicyChanged, RequestOutcome, SystemChanged
from foldlog.storage.protocol import Chunk


def note(number: int) -> Event:
    """Return an event that names its number and no chunk."""
    return RequestOutcome(1_700_000_000_000 + number, f"cmd-{number}", number, f"outcome {number}")


def notes(first: int, count: int) -> list[Event]:
    """Return ``count`` numbered events."""
    return [note(number) for number in range(first, first + count)]


def flush() -> Event:
    """Return the smallest event there is."""
    return FlushRequested(1, "")


def long_event(size: int) -> Event:
    """Return an event of a little more than ``size`` bytes that does not compress to nothing."""
    data = b"".join(sha256(str(n).encode()).hexdigest().encode() for n in range(size // 64 + 1))
    return PolicyChanged(1, "long", data[:size])


def names(data: bytes) -> Event:
    """Return an event that names the chunk of ``data``."""
    return SystemChanged(1, "", sha256(data).digest(), b"", 1)


def chunk(data: bytes, **more: Any) -> Chunk:
    """Return ``data`` as a chunk."""
    return Chunk(sha256(data).digest(), data, **more)

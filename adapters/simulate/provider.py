"""Who answers a played request: the recorded figures as far as they apply, or a simulated provider (convention 25)."""

from __future__ import annotations

from typing import Protocol

import msgspec

from ..billing.profiles import Profile
from ..billing.provider import Provider
from ..billing.records import Record
from ..traces.model import Usage
from .usage import Meter, prompt


class Answer(msgspec.Struct, frozen=True):
    """What is told of one request. ``total``: tokens of its prompt, None = not known; ``source``: where it is from."""

    usage: Usage
    source: str
    total: int | None


class Answerer(Protocol):
    """Answers the requests of one session, in order."""

    def weigh(self, recorded: Usage | None, record: Record | None, ours: int, removed: int) -> int | None:
        """Return what the provider says the prompt has, before it is answered; None: it says nothing."""
        ...

    def answer(self, record: Record | None) -> Answer | None:
        """Return the figures of the request weighed last; None: nothing is known."""
        ...

    def added(self, record: Record) -> None:
        """Take notice of a call that is not the session's own."""
        ...


class Recorded:
    """The recorded usage, as far as it applies (``specs/cli.md``)."""

    def __init__(self) -> None:
        self._meter = Meter()
        self._told: Answer | None = None

    def weigh(self, recorded: Usage | None, record: Record | None, ours: int, removed: int) -> int | None:
        told = self._meter.tell(recorded, ours, removed)
        total = None if told is None else prompt(told.usage)
        self._told = None if told is None else Answer(told.usage, told.source, total)
        return total

    def answer(self, record: Record | None) -> Answer | None:
        return self._told

    def added(self, record: Record) -> None:
        """Nothing: recorded figures know of no added call."""


class Simulated:
    """A provider with a prompt cache, which sees the digests and tokens of what it was sent and nothing else."""

    def __init__(self, profile: Profile) -> None:
        self._provider = Provider(profile)

    def weigh(self, recorded: Usage | None, record: Record | None, ours: int, removed: int) -> int | None:
        return None if record is None else record.tokens

    def answer(self, record: Record | None) -> Answer | None:
        if record is None:
            return None
        found = self._provider.answer(record)
        output = -1 if record.output_tokens is None else found.output
        return Answer(Usage(found.uncached, found.read, found.written, output), "simulated", found.prompt)

    def added(self, record: Record) -> None:
        self._provider.answer(record)

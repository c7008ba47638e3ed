"""What a trace is, whatever it was read from: requests of one session, each with the messages it added."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Codec: TypeAlias = Literal["anthropic", "pi", "openai-chat", "openai-responses"]


class Usage(msgspec.Struct, frozen=True):
    """Tokens a provider reported for one request; -1 means not reported. ``input`` counts uncached input only."""

    input: int = -1
    cache_read: int = -1
    cache_write: int = -1
    output: int = -1


class Skipped(msgspec.Struct, frozen=True):
    """A line (1-based; in a JSON array the 1-based item) that could not be used, and why."""

    line: int
    why: str


class Step(msgspec.Struct, frozen=True):
    """One request.

    ``at``: ms UTC, 0 if unknown. ``messages``: raw JSON of the messages new since the request before, the first being
    the answer to that request. ``usage``: of the answer to this request. ``cut`` is reserved.
    """

    at: int
    model: str
    messages: tuple[bytes, ...]
    usage: Usage | None = None
    cut: int = -1


class Trace(msgspec.Struct, frozen=True):
    """A session: the array of request ``k`` is the concatenation of the messages of steps 0 to ``k``.

    ``tail`` holds what stands behind the last request: its answer, and messages that no request carried any more.
    ``system`` and ``tools`` are raw JSON or None. ``ignored`` counts what was left out on purpose, by reason.
    """

    name: str
    codec: Codec
    model: str
    system: bytes | None
    tools: bytes | None
    steps: tuple[Step, ...]
    tail: tuple[bytes, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    ignored: dict[str, int] = {}


def messages_of(trace: Trace, step: int | None = None) -> list[bytes]:
    """Return the message array of request ``step`` (0-based), or of the last one, as raw JSON texts."""
    stop = len(trace.steps) if step is None else step + 1
    return [raw for one in trace.steps[:stop] for raw in one.messages]

"""What a summariser is given and gives back: the port all adapters implement (``history.md`` 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from ....domain.errors import FoldlogError

Kind: TypeAlias = Literal["refused", "unreachable", "timeout", "rubbish", "cut", "missing"]
"""Why a run gave nothing: the endpoint said no, was not reached, was too slow, answered what cannot be read, stopped
at its output limit, or something this machine needs is missing (a package, a key)."""


class ToolCall(msgspec.Struct, frozen=True):
    """A call as the model made it. ``arguments`` is decoded JSON; what is no object stands under ``""``."""

    name: str
    arguments: Mapping[str, Any]
    id: str


class ToolOutput(msgspec.Struct, frozen=True):
    """What a call gave back; ``error`` is the host's own mark."""

    id: str
    text: str
    error: bool = False


class Turn(msgspec.Struct, frozen=True):
    """One message, complete and neutral. ``position``: its ordinal; media and reasoning are left out.

    ``tied``: a summary may not end before it, since it is of one answer with the message before it.
    """

    position: int
    role: str
    texts: tuple[str, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolOutput, ...] = ()
    tied: bool = False


class Job(msgspec.Struct, frozen=True):
    """A stretch to summarise.

    ``turns`` in order; ``chunk`` the condensed text with its ``[N]`` lines (5.3); ``start`` and ``end`` the ordinals
    to cover, inclusive; ``limit_tokens`` the tokens of the raw stretch; ``earlier`` what is known of the compartments
    before it; ``session`` the stream it is part of.
    """

    turns: tuple[Turn, ...]
    chunk: str
    start: int
    end: int
    limit_tokens: int
    earlier: tuple[str, ...] = ()
    session: str = ""


class Summary(msgspec.Struct, frozen=True):
    """One compartment: ordinals ``start..end``, a title, tiers from full to a fragment, importance 1 to 100."""

    start: int
    end: int
    title: str
    tiers: tuple[str, str, str, str]
    importance: int


class Summarised(msgspec.Struct, frozen=True):
    """The outcome of one run. ``raw``: the answer as it came; tokens as the provider counted them, 0 where none was
    asked.
    """

    summaries: tuple[Summary, ...]
    raw: str
    input_tokens: int
    output_tokens: int
    model: str


class Summarizer(Protocol):
    """Summarises a stretch. ``name`` is for people and logs. Raises ``FoldlogError`` with code ``SUMMARISER``."""

    @property
    def name(self) -> str: ...

    @property
    def free(self) -> bool:
        """Whether a run costs no model call."""
        ...

    def __call__(self, job: Job) -> Summarised: ...


def failure(kind: Kind, message: str, value: Any = None, *, again: bool = False) -> FoldlogError:
    """Return the error of a run that gave nothing. ``again``: the same call may succeed later."""
    error = FoldlogError(message, value=value, where=f"summariser.{kind}", code="SUMMARISER")
    error.recoverable = again
    return error


def kind_of(error: FoldlogError) -> str:
    """Return the ``Kind`` of an error made by ``failure``, or its code where another part of foldlog raised it."""
    head, _, kind = error.where.partition(".")
    return kind if head == "summariser" and kind else error.code

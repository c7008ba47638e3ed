"""A scenario: what the scripted model does, step by step, and what its provider does to it. Scenarios are data (JSON).

A prompt carries its place in the script as ``[[track:step]]``; every call the model makes carries the step in its id.
So the provider keeps no memory of a conversation: forks, resumed sessions, subagents and retries find their step by
themselves, however much of the history was folded away.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One tool call, named by kind: ``read``, ``look`` (at a picture), ``run``, ``write``, ``reduce``, ``expand``,
    ``task`` (a subagent), ``wait`` (for it), ``plan`` (a to-do list with ``content`` as its one step).

    ``keep`` is the number of newest visible tags a ``reduce`` leaves alone. ``track`` is what a subagent plays.
    ``fill``: a ``run`` prints as much of the file ``path`` as brings the next prompt to so many per cent of the window.
    """

    do: str
    path: str = ""
    command: str = ""
    content: str = ""
    keep: int = 4
    track: str = ""
    fill: int = 0


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer of the model: visible text, thinking, and calls. Without calls it ends the turn."""

    say: str = ""
    think: str = ""
    calls: tuple[Call, ...] = ()


class Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What goes wrong at ``step`` of ``track``, the first ``times`` times it is asked for.

    Kinds: ``overflow`` (in the provider's words, or in ``words``, with ``limit`` and ``used``), ``529``, ``429``,
    ``cut`` (the stream ends in the middle), ``error_event`` (an error inside the stream), ``slow`` (``seconds`` before
    the first byte), ``stall`` (``seconds`` in the middle of the stream).
    """

    step: int
    kind: str
    times: int = 1
    track: str = "main"
    limit: int = 0
    used: int = 0
    seconds: float = 0.0
    words: str = ""


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The script and the model's figures.

    ``window``: tokens the model takes; more is refused as an overflow. ``pictures``: how many it takes, 0 for any
    number. ``minimum``: the smallest cached prefix.
    ``bound``: the signature of thinking covers everything before it (prefix-bound models). ``check``: refuse what the
    independent checkers refuse.
    """

    tracks: dict[str, tuple[Step, ...]]
    window: int = 200_000
    pictures: int = 0
    minimum: int = 1024
    bound: bool = False
    check: bool = True
    failures: tuple[Failure, ...] = ()


def load(path: Path) -> Scenario:
    """Read a scenario; raises msgspec.ValidationError with the member that is wrong."""
    return msgspec.json.decode(path.read_bytes(), type=Scenario)


def save(scenario: Scenario, path: Path) -> None:
    """Write ``scenario`` as JSON."""
    path.write_bytes(msgspec.json.encode(scenario))


def as_json(value: Any) -> Any:
    """Return ``value`` as plain JSON objects."""
    return msgspec.to_builtins(value)

"""Requests that went out and that no pass tells of: what a host hands over behind them shows that there was one."""

from __future__ import annotations

from collections.abc import Callable

from .identity import Observation
from .state import State
from .transcript import Message, Result, Text

MADE_UP = frozenset({"No response requested."})
"""Answers no model gave: Claude Code puts one behind what a person ran beside the conversation."""


def went_out(state: State, seen: Observation, text: Callable[[Message], str]) -> int:
    """Return how many of the new messages an answer shows to have been sent already, raw (LAST-6); 0 for none.

    An answer behind words or results that no request held answers a request nobody recorded: everything before it was
    in that. An answer at the very end of the array is none yet (a prefill), and an array that leaves the head's path
    tells nothing of what was sent behind its last request. ``text(message)``: what its first part holds.
    """
    fresh = tuple(range(len(state.nodes) + 1, len(state.nodes) + len(seen.new) + 1))
    if seen.keep != len(state.path) or seen.tail != fresh:
        return 0
    asked = answered = False
    end = 0
    for index in range(len(seen.new) - 1, -1, -1):
        message = seen.new[index]
        if answered and message.role not in ("assistant", "other"):
            end = end or index + 1
        if answered and _asks(message):
            return end or index + 1
        asked = asked or _asks(message)
        answered = answered or (asked and message.role == "assistant" and not _made_up(message, text))
    return 0


def _made_up(message: Message, text: Callable[[Message], str]) -> bool:
    if len(message.parts) != 1 or not isinstance(message.parts[0], Text):
        return False
    return message.parts[0].size <= max(map(len, MADE_UP)) and text(message) in MADE_UP


def _asks(message: Message) -> bool:
    """Whether a model is asked behind it: a person's words, a tool's results, in an answer's own message too."""
    return message.role in ("user", "tool") or any(isinstance(part, Result) for part in message.parts)


def when(state: State, seen: Observation, now: int) -> int:
    """Return when it went out, at the latest: as its host dated the newest of it, else just now.

    So no idle expiry is concluded from what nobody knows (SCHED-3).
    """
    heard = state.last.now if state.last is not None else 0
    dated = seen.new[-1].stamp if seen.new else 0
    return max(heard, min(dated, now)) if dated else now

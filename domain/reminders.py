"""Reminding the agent of its notes, as a fold: what gave occasion, what was said, and whether it went out.

A reminder counts as said only when its request was taken (``design.md`` 3, Outcome): a person may go back before it.
"""

from __future__ import annotations

from . import events as ev
from .edits import SetText
from .state import State

SETTLED = ("recent", "none", "read")
"""Why nothing is said of an occasion, and it is spent all the same (``transform.md`` 6.4)."""


def occasion(state: State) -> None:
    """Keep that there is occasion for a reminder, with the next new message of a person."""
    state.reminder.due = state.reminder.due or len(state.nodes)


def due(state: State, *, carried: bool) -> int:
    """Return behind which message a reminder may stand, 0 for none. ``carried``: the newest goes out with this request.

    One whose request nobody took, and whose message the host has left, is owed again.
    """
    kept = state.reminder
    return kept.due or (kept.owed if kept.open and not carried else 0)


def passed(state: State, event: ev.Pass) -> None:
    """Take in what a request of the head told the agent, and what was read in what it brings."""
    kept, decision = state.reminder, event.decision
    edits = (edit for arrival in event.arrivals for edit in arrival.edits)
    said = next((edit for edit in edits if isinstance(edit, SetText) and edit.kind == "note"), None)
    if said is not None:
        kept.owed, kept.was = due(state, carried=False), kept.now
        kept.due, kept.open = 0, False
        kept.m, kept.p, kept.number, kept.now = said.m, said.p, event.number, state.seen
    elif kept.open and carried(state):
        kept.open, kept.number, kept.now = False, event.number, state.seen
    elif kept.open:
        void(state)
    if decision is not None:
        if any(one.word == "note" and one.outcome in SETTLED for one in decision.asked):
            kept.due = 0
        for one in decision.noticed:
            _notice(state, one)
    kept.at, kept.seen = event.at, len(state.nodes)


def carried(state: State) -> bool:
    """Whether the message of the newest reminder is still sent."""
    return state.pos.get(state.reminder.m, -1) >= state.start()


def _notice(state: State, one: ev.Noticed) -> None:
    if one.what == "commit":
        state.reminder.commit = one.m
    elif one.what == "read":
        state.reminder.read = (one.m, one.p, state.reminder.at)
    if one.occasion:
        occasion(state)


def untaken(state: State, number: int) -> None:
    """Take in that no provider took the request of pass ``number``: what it told is not said yet."""
    kept = state.reminder
    if kept.number == number:
        kept.open, kept.number, kept.now = True, 0, kept.was


def void(state: State) -> None:
    """Take in that the newest reminder is in no request any more: if nobody took it, it is owed again."""
    kept = state.reminder
    if kept.open:
        kept.open, kept.due = False, kept.due or kept.owed

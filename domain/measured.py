"""What providers measure of a session's requests, folded: usage, the ratio to our own count, limits, overflows."""

from __future__ import annotations

from . import events as ev
from .state import Overflow, State, Usage
from .window import ASSUMED_WINDOW, LEARNT

ODD_WINDOWS = 3
ODD_COUNTS = 20
"""Usage over so many windows and so many times our own count of the request is not believed."""
EASED = 90
"""Below so many per cent of the window a summariser that gave up is tried again (1.1)."""
RETRIED = 6
"""After so many failures in a row no summary is tried at 95% either, until an overflow or a flush asks for one more."""


def usage(state: State, event: ev.UsageReported) -> None:
    """Take in what the provider counted for a request that was answered."""
    parts = [n for n in (event.input, event.cache_read, event.cache_write) if n > 0]
    ours = state.counted.get(event.number)
    if ours is None:
        return  # of a side request, of another model, or long past: nothing of it is the head's
    state.response_now = max(state.response_now, event.now)
    if state.last is not None and event.number == state.last.number:
        state.last.answered, state.reopened = True, False
    if not parts:
        return
    total = sum(parts)
    if state.overflow and event.number > state.overflow.number:
        state.overflow = None
    if event.number > state.unbound:
        state.unbound = 0  # nothing was there to take out, or nothing may be: it was taken as it is
    if _doubtful(state, total, ours):
        return
    state.accepted = max(state.accepted, total) if total in LEARNT else state.accepted
    if state.learnt and state.learnt[0] == state.model and total > state.learnt[1]:
        state.learnt = None  # an accepted call contradicts the limit
    if ours:
        state.ratios[state.model] = min(max(total * 1000 // ours, 300), 5000)
    if event.number >= state.rebuilt > state.failed and _eased(state, total):
        state.failures = 0
    if event.number >= state.rebuilt and (state.usage is None or event.number >= state.usage.number):
        state.usage = Usage(total, event.number)


def _eased(state: State, total: int) -> bool:
    """Whether usage leaves room again. The answer's room is taken as known; what a person keeps free beside is not."""
    context = state.context_limit or ASSUMED_WINDOW
    return total * 100 < (context - min(state.output_limit, context // 4)) * EASED


def _doubtful(state: State, total: int, ours: int) -> bool:
    """Whether a count is of something else: many times the window of an accepted call, and many times our own (TC-03).

    One alone proves nothing: a catalogue may know a smaller window, and a host may keep system and tools to itself.
    """
    return 0 < state.context_limit * ODD_WINDOWS < total and ours * ODD_COUNTS < total


def overflow(state: State, event: ev.OverflowReported) -> None:
    """Take in that the provider refused a request as too long, and the limit it told."""
    tokens = state.counted.get(event.number)
    if tokens is None:
        return  # of a side request, or of another model
    taken = event.input or event.used
    if taken and tokens:
        state.ratios[event.model] = min(max(taken * 1000 // tokens, 300), 5000)
    if event.model != state.model:
        return  # a router chose another model: nothing of it is this one's (OV-12)
    learnt = event.limit in LEARNT and event.limit > state.accepted
    if learnt:
        state.learnt, state.bounds = (event.model, event.limit), event.bounds
    if event.kind == "output_driven" or (state.usage is not None and state.usage.number > event.number):
        return  # the input fits; or a later request was answered meanwhile
    before = state.overflow
    tries = 1 if before is None else before.tries + (event.number > before.number)
    limit = event.limit if learnt else 0
    state.overflow = Overflow(event.number, limit, taken, tokens, event.output, tries)
    state.failures = min(state.failures, RETRIED - 1)  # a provider's word is worth one more try of the summariser

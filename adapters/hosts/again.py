"""Whether a refused request is worth one more: read from the log, so that a new process says the same (EXT-10)."""

from __future__ import annotations

from ...domain.passes.lanes.reasoning import recoverable
from ...request import Request

MENDED = frozenset({"thinking_recovery", "picture_recovery"})
"""Reasons of a request that was made in answer to a refusal already."""


def unmended(request: Request) -> bool:
    """Whether nothing was refused before it since the last answer. Asked before its own refusal is reported."""
    state = request.session.core.hot().state
    return state.overflow is None and not (state.bulky or state.unbound) and MENDED.isdisjoint(request.reasons)


def mends(request: Request) -> bool:
    """Whether the next request will be another than this one, by its refusal. Asked once that is reported.

    Where the output asked for is the cause nothing of the request changes, nor where foldlog may take nothing out.
    """
    core = request.session.core
    state = core.hot().state
    if not core.settings(state.policy, state.model).compaction:
        return False
    over = state.overflow is not None and state.overflow.number == request.pass_number
    return over or state.bulky or bool(state.unbound and recoverable(state))

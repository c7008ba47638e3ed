"""When a decided request must not be sent (``transform.md`` 7.3, 7.4, as ruled).

A healthy pass is never refused for a local estimate alone: only a provider's own refusal, or a first pass that nothing
has ever managed, is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import events as ev
from ..state import State
from .schedule import Pressure, calibrated

if TYPE_CHECKING:
    from .decide import Given


def check(state: State, given: Given, gauge: Pressure, outcome: ev.Pass) -> ev.PassRefused | None:
    """Return the refusal of the pass that would produce ``outcome``, None where it may be sent."""
    if not gauge.settings.compaction or gauge.source != "synthetic":
        return None
    tokens = calibrated(state, given.model, outcome.tokens)
    overflow = state.overflow
    if overflow is not None and given.model == state.model:
        # a request as large as the one refused does not fit, whatever an estimate or a catalogue says
        if outcome.tokens < overflow.tokens and (not gauge.limit or tokens <= gauge.limit):
            return None
        code = "CONTEXT_FULL"
        said = f"the provider refused it at {overflow.used:,} tokens" if overflow.used else "the provider refused it"
        message = (
            f"the session does not fit the model's window ({said}; the window holds {_known(gauge.limit)} tokens, this "
            f"request about {tokens:,}). Mark what is spent with ctx_reduce and flush, or start a new session."
        )
    elif gauge.limit and tokens > gauge.limit:
        code = "UNMANAGED_OVER_WINDOW"
        message = (
            f"this session is longer than the model's window and has not been managed before: about {tokens:,} of "
            f"{gauge.limit:,} tokens. Nothing was sent. Use a model with a larger window, or start a new session."
        )
    else:
        return None
    return ev.PassRefused(given.at, "", state.passes + 1, given.now, code, message, tokens, gauge.limit)


def _known(limit: int) -> str:
    return f"{limit:,}" if limit else "an unknown number of"

"""The session ``make demo`` plays: generated at run time, so nothing has to be shipped."""

from __future__ import annotations

import msgspec

from .generator import generate
from .model import Trace

_SEED = 250
"""A session that shows rebuilds for idleness, for pressure and for a summary, and drops that land with them."""
_REQUESTS = 180


def bundled() -> Trace:
    """Return the demo session: 180 requests, idle gaps over five minutes, several calls of ``ctx_reduce``."""
    return msgspec.structs.replace(generate(_SEED, _REQUESTS), name="bundled")

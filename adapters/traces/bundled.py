"""The session ``make demo`` plays: generated at run time, so nothing has to be shipped."""

from __future__ import annotations

import msgspec

from .generator import generate
from .model import Trace

_SEED = 36
_REQUESTS = 180


def bundled() -> Trace:
    """Return the demo session: 180 requests with idle gaps over five minutes and several ``ctx_reduce`` calls."""
    return msgspec.structs.replace(generate(_SEED, _REQUESTS), name="bundled")

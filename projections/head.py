"""The two messages in front of a primary session: m[0], the frozen baseline, and m[1], what came since.

Their texts are lists of chunks, so that a re-render stores only what is new (law 2). Shapes: ``history.md`` 2.1 to 2.3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from ..domain.passes.decide import Head
from ..domain.session import State
from .guidance import GUIDANCE

EMPTY_HISTORY = "<session-history></session-history>"
NOTHING_SINCE = "<session-history-since>(nothing new since the last fold)</session-history-since>"


def render(state: State, count: Callable[[str], int], *, managed: bool) -> Head:
    """Render head and guidance for a fold. A subagent has no head; without compaction nothing of ours is sent."""
    texts: dict[bytes, bytes] = {}
    tokens = 0

    def keep(text: str) -> bytes:
        nonlocal tokens
        tokens += count(text)
        digest = hashlib.sha256(text.encode()).digest()
        texts[digest] = text.encode()
        return digest

    headed = managed and state.primary
    m0 = (keep(EMPTY_HISTORY),) if headed else ()
    m1 = (keep(NOTHING_SINCE),) if headed else ()
    guidance = keep(GUIDANCE) if managed and state.reduce else b""
    return Head(m0, m1, guidance, tokens, texts)

"""The two messages in front of a primary session: m[0], the frozen baseline, and m[1], what came since.

Their texts are lists of chunks, so that a re-render stores only what is new (law 2). Shapes: ``history.md`` 2.1 to 2.3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from ..domain.events import Compartment
from ..domain.passes.given import Head
from ..domain.state import State
from . import decay
from .guidance import GUIDANCE

NOTHING_SINCE = "<session-history-since>(nothing new since the last fold)</session-history-since>"
SINCE = ("<session-history-since>\n<new-compartments>\n", "\n</new-compartments>\n</session-history-since>")
HISTORY = ("<session-history>\n", "\n</session-history>")

Text = Callable[[bytes], bytes]
Count = Callable[[str], int]


class _Shelf:
    """Collects the texts of one rendering: each a chunk by digest."""

    def __init__(self, count: Count) -> None:
        self.count = count
        self.texts: dict[bytes, bytes] = {}

    def put(self, pieces: Sequence[str], tokens: int = 0) -> tuple[tuple[bytes, ...], int]:
        """Keep ``pieces`` as chunks; return their digests and the tokens of all (``tokens``, where known)."""
        digests = []
        for piece in pieces:
            data = piece.encode()
            digests.append(hashlib.sha256(data).digest())
            self.texts[digests[-1]] = data
        return tuple(digests), tokens or (self.count("".join(pieces)) if pieces else 0)


def fold(state: State, covered: Sequence[Compartment], budget: int, count: Count, text: Text, *, managed: bool) -> Head:
    """Render head and guidance for a fold: all summaries on the path, each at the tier it still deserves.

    A subagent has no head; without compaction nothing of ours is sent. ``budget``: tokens for the history.
    """
    shelf = _Shelf(count)
    headed = managed and state.primary
    rows = [row(one, text) for one in covered] if headed else []
    rendered = decay.render_within(rows, budget, count)
    known = rendered.tokens + 2 * count(decay.EMPTY) if rendered.tokens else 0
    m0, m0_tokens = shelf.put(_history(rendered), known) if headed else ((), 0)
    m1, m1_tokens = shelf.put([NOTHING_SINCE]) if headed else ((), 0)
    words, tokens = shelf.put([GUIDANCE] if managed and state.reduce else [])
    return Head(
        m0=m0,
        m1=m1,
        guidance=words[0] if words else b"",
        tokens=m0_tokens + m1_tokens + tokens,
        texts=shelf.texts,
        cut=covered[-1].last if headed and covered else 0,
        fold=True,
        m0_tokens=m0_tokens,
        m1_tokens=m1_tokens,
    )


def refresh(
    state: State, m0: Sequence[bytes], guidance: bytes, covered: Sequence[Compartment], count: Count, text: Text
) -> Head:
    """Render m[1] anew: every summary published since the last fold, at its fullest tier. m[0] stays."""
    shelf = _Shelf(count)
    known = set(state.baseline)  # not by number: an older one counts again once what was missing before it is covered
    fresh = [one for one in covered if one.seq not in known]
    rows = [row(one, text) for one in fresh]
    blocks = [decay.block(one, 1) for one in rows if not one.boundary_only]
    m1, m1_tokens = shelf.put(_framed(SINCE, blocks) if blocks else [NOTHING_SINCE])
    m0_tokens = count(b"".join(text(digest) for digest in m0).decode())
    words = count(text(guidance).decode()) if guidance else 0
    return Head(
        m0=tuple(m0),
        m1=m1,
        guidance=guidance,
        tokens=m0_tokens + m1_tokens + words,
        texts=shelf.texts,
        cut=covered[-1].last if covered else 0,
        fold=False,
        m0_tokens=m0_tokens,
        m1_tokens=m1_tokens,
    )


def row(one: Compartment, text: Text) -> decay.Row:
    """Return a stored compartment as the renderer needs it."""
    title = text(one.title).decode() if one.title else ""
    p1, p2, p3, p4 = (text(digest).decode() if digest else None for digest in one.tiers)
    return decay.Row(one.first, one.last, title, (p1, p2, p3, p4), one.tokens, one.importance)


def _history(rendered: decay.Rendered) -> list[str]:
    return _framed(HISTORY, [block.text for block in rendered.blocks]) if rendered.blocks else [decay.EMPTY]


def _framed(frame: tuple[str, str], blocks: Sequence[str]) -> list[str]:
    """Return the pieces of a block list: each compartment a chunk of its own, so that it is stored once."""
    pieces = [frame[0]]
    for place, block in enumerate(blocks):
        pieces += ["\n\n", block] if place else [block]
    return [*pieces, frame[1]]

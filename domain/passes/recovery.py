"""What a provider's overflow leaves behind until a request is answered (``transform.md`` 1.8, 7.3, as ruled).

While one is unanswered, recovery is armed: a pass counts as at 95%, and only a request that can be expected to fit is
sent. Every step is a fold of events, so a restart in the middle changes nothing, and every way ends: with a request
that fits, or with a refusal that says why.
"""

from __future__ import annotations

from .. import costs
from ..state import Overflow, State
from ..transcript import Message, Result, Text

GAIN = 90
"""Without figures of the provider a request may have at most so many per cent of the refused one."""
TRIES = 3
"""After so many overflows in a row without an answer making a little less is no way on."""
HALF = 50
"""Then only a request of at most so many per cent of the last refused one is sent."""
ESCAPE = 2
"""After so many refused passes that nothing could make smaller, what no figure forbids is sent after all (1.8)."""
TRUSTED = 8
"""In tenths of a limit the provider told: an estimate in its own count below that needs no recovery (1.8)."""


def armed(state: State, model: str, local: int) -> Overflow | None:
    """Return the overflow that puts this pass at 95%, None for none.

    ``local``: tokens of the request by our count before any drop, 0 where there is none. Not where the host itself made
    the request small enough by the provider's own figures.
    """
    overflow = pending(state, model)
    if overflow is None:
        return None
    ours = expected(overflow, local) if overflow.limit else 0
    if ours and (ours + overflow.output) * 10 < overflow.limit * TRUSTED:  # the answer needs its room too
        return None
    return overflow


def pending(state: State, model: str) -> Overflow | None:
    """Return the overflow of this model that no answer has followed yet."""
    return state.overflow if model == state.model else None


def expected(overflow: Overflow, local: int) -> int:
    """Return what the provider will count for a request, by what it counted for the refused one; 0 where it did not."""
    return overflow.used * local // overflow.tokens if overflow.tokens else 0


def escaped(state: State, overflow: Overflow, tokens: int, limit: int) -> bool:
    """Whether refusing has gone on long enough where no figure forbids the request: the provider may have been wrong.

    A subagent has no such way out: nobody is there to go on, and its parent gets the error.
    """
    forbidden = limit > 0 and tokens + overflow.output > limit
    return state.primary and overflow.refused >= ESCAPE and overflow.tries < TRIES and not forbidden


def fits(state: State, overflow: Overflow, local: int, tokens: int, limit: int) -> bool:
    """Whether a request can be expected to fit after ``overflow``.

    ``local``: its tokens by our count, ``tokens``: by the provider's as far as its answers tell, ``limit``: the window
    as far as known, 0 = not.
    """
    tokens = expected(overflow, local) or tokens
    if escaped(state, overflow, tokens, limit):
        return True
    if limit and tokens + overflow.output > limit:
        return False
    most = overflow.tokens - 1 if overflow.limit and overflow.used else overflow.tokens * GAIN // 100
    return local <= (overflow.tokens * HALF // 100 if overflow.tries >= TRIES else most)


def largest(state: State) -> tuple[int, int]:
    """Return the number and local tokens of the largest part that is still sent and can be dropped; 0 for none."""
    begin = state.start()
    sizes = [
        (costs.of(state, tag), -number)
        for number, tag in enumerate(state.tags, 1)
        if tag.status == "active"
        and number not in state.queue
        and state.pos.get(tag.m, -1) >= begin
        and _there(state.node(tag.m).message, tag.p)
    ]
    tokens, number = max(sizes, default=(0, 0))
    return -number, tokens


def _there(message: Message, p: int) -> bool:
    return p < len(message.parts) and isinstance(message.parts[p], Text | Result)

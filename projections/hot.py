"""The folds of a session in use, and what a process remembers beside them: host bytes, the chain."""

from __future__ import annotations

import msgspec

from .fold import Folded
from .intake import Intake


class Hot(Folded):
    """A session in memory. ``chain[i]``: the digest after path index ``known + i``; ``start``: the one before it.

    ``received[i]`` is what the host last sent at path index ``i`` (None: not seen by this process); ``blocks[m]`` the
    block digests of message ``m`` as last sent.
    """

    received: list[bytes | None] = msgspec.field(default_factory=list)
    chain: list[bytes] = msgspec.field(default_factory=list)
    known: int = -1
    start: bytes = b""
    blocks: dict[int, tuple[bytes, ...]] = msgspec.field(default_factory=dict)


def heat(folded: Folded) -> Hot:
    """Make folds ready for passes."""
    hot = Hot(folded.state, folded.view, folded.digest, folded.snapshot)
    settle(hot)
    return hot


def settle(hot: Hot) -> None:
    """Find where the chain goes on after events were taken in that this process did not render."""
    state = hot.state
    hot.chain, hot.known, hot.blocks = [], -1, {}
    same = state.base_system == state.system and state.base_tools == state.tools and state.base_keep == state.base_len
    if state.last is not None and state.base == state.last.number and same:
        hot.known, hot.start = state.base_len, state.last.digest


def remember(hot: Hot, intake: Intake, index: int, start: bytes, digests: list[bytes], *, fresh: bool) -> None:
    """Keep the chain along the head's path, and what the host last sent at each place of it."""
    cut = min(index, intake.seen.keep)  # a branch taken up as the head leaves the old path before its own base ends
    # from the first message on all is new, and what stands before it may be too
    if fresh or index <= hot.known or cut < max(hot.known, index) or index > hot.known + len(hot.chain):
        hot.known, hot.start, hot.chain = index, start, digests
    else:
        del hot.chain[index - hot.known :]
        hot.chain += digests
    state = hot.state
    if intake.received is not None:
        keep, raws = intake.received
        del hot.received[keep:]
        hot.received += raws[keep:]
        return
    seen = intake.seen
    del hot.received[seen.touched :]
    hot.received.extend([None] * (len(state.path) - len(seen.new) - len(hot.received)))
    hot.received += [intake.bodies[message.body][0] for message in seen.new]

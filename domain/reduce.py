"""``ctx_reduce``: what an agent's list of spent tags means, and what it is told (``transform.md`` 3.1)."""

from __future__ import annotations

import msgspec

from .errors import RangeError, UnknownTag
from .passes.protection import protected
from .ranges import parse_tags, show_tags
from .state import State


class Marked(msgspec.Struct, frozen=True):
    """``queue``: tags to queue now; ``reply``: the words for the agent."""

    queue: tuple[int, ...]
    reply: str


def evaluate(state: State, drop: object, *, managed: bool = True) -> Marked:
    """Say which of the tags in ``drop`` are to be queued. All or nothing, and nothing where foldlog is not to manage
    the window (``managed``): what is marked there would never leave (8.1).

    Raises ``RangeError`` for a list that cannot be read, ``UnknownTag`` for a number never given or given before a
    compaction.
    """
    if drop is None:
        raise RangeError("'drop' must be given: the numbers of what is spent, such as '3-5,8'")
    asked = parse_tags(drop)
    unknown = tuple(number for number in asked if number > len(state.tags))
    if unknown:
        raise UnknownTag(
            f"no part of this session has the number {show_tags(unknown)}; use numbers seen in the conversation",
            value=drop,
        )
    before = tuple(number for number in asked if 0 <= state.pos.get(state.tags[number - 1].m, -1) < state.start())
    if before:
        raise UnknownTag(f"{show_tags(before)} is from before a compaction and no longer in the request", value=drop)
    if not managed:
        return Marked((), "Nothing is marked: in this session the host keeps its window itself, and nothing leaves.")
    fresh = tuple(n for n in asked if n not in state.queue and state.tags[n - 1].status == "active" and state.names(n))
    if not fresh:
        return Marked((), "All of these are marked or dropped already; nothing more is needed.")
    shielded = protected(state, state.adopted.floor if state.adopted is not None else 0, emergency=False)
    now = [n for n in fresh if n not in shielded]
    later = [n for n in fresh if n in shielded]
    pieces = []
    if now:
        pieces.append(f"drop {show_tags(now)}")
    if later:
        pieces.append(f"drop later {show_tags(later)} (still among the newest tool outputs)")
    reply = f"Queued: {', '.join(pieces)}."
    if len(fresh) < len(asked):
        reply += f" {len(asked) - len(fresh)} of the numbers were marked already."
    return Marked(fresh, reply)

"""What every lane is handed and what it gives back (``design.md`` 5): one input, one permission, one kind of answer."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from ...edits import Edit
from ...policy import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...identity import Scene
    from ..permission import Permission
    from ..schedule import Pressure


class Item(msgspec.Struct, frozen=True):
    """One thing a lane can do now.

    ``edits``: what it does to the view; ``frees``: local tokens it frees, never below 0; ``net``: the same, where a
    placeholder larger than what it replaces counts against it; ``index``: the first path index it changes. ``tag`` is
    the number that leaves the request by it, dropped as ``mode`` says, 0 where no number does; ``spares``: (message,
    part, tokens) no longer sent of parts that stay.
    """

    tag: int
    mode: str
    edits: tuple[Edit, ...]
    frees: int
    index: int
    net: int
    spares: tuple[tuple[int, int, int], ...] = ()


class CallFact(msgspec.Struct, frozen=True):
    """What a call's arguments say: a digest of all of them, the file they name (empty: none), the action they ask."""

    print: bytes
    path: str
    action: str


class Facts(msgspec.Struct, frozen=True):
    """Contents a lane asked for, by (message, part)."""

    calls: Mapping[tuple[int, int], CallFact] = MappingProxyType({})
    texts: Mapping[tuple[int, int], str] = MappingProxyType({})


class Ask(msgspec.Struct, frozen=True):
    """The pass as a lane sees it.

    ``permission`` is the pass's one permission: a lane plans the same without it, and what it plans is then only told.
    ``begin``: first path index that may be edited; ``spared``: tags no lane takes out by itself; ``recent``: the newest
    tool tags, of which small calls keep a skeleton; ``rides``: something else already rewrites the prefix on this pass;
    ``routine``: the once-per-episode cleanup may run; ``queued``: what the queue can do; ``taken`` and ``freed``: the
    tags lanes before this one take out, and the local tokens they free.
    """

    scene: Scene
    settings: Settings
    gauge: Pressure
    permission: Permission
    begin: int
    spared: frozenset[int]
    recent: frozenset[int]
    rides: bool
    routine: bool
    queued: tuple[Item, ...] = ()
    facts: Facts = Facts()
    taken: frozenset[int] = frozenset()
    freed: int = 0


class Work(msgspec.Struct, frozen=True):
    """What one lane does on this pass. ``texts``: chunks its edits name, by digest."""

    lane: str
    items: tuple[Item, ...] = ()
    texts: Mapping[bytes, bytes] = MappingProxyType({})


class Wants(msgspec.Struct, frozen=True):
    """Contents a lane has to read before it can plan, by (message, part)."""

    calls: frozenset[tuple[int, int]] = frozenset()
    texts: frozenset[tuple[int, int]] = frozenset()

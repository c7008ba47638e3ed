"""What every lane is handed and what it gives back (``design.md`` 5): one input, one permission, one kind of answer."""

from __future__ import annotations

from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from ...edits import Edit, Insert
from ...policy import Settings
from ...state import key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...identity import Scene
    from ..permission import Permission
    from ..schedule import Pressure


Part: TypeAlias = tuple[int, int]
"""Message and part of a content a lane has to read."""
TOOLS: Part = (0, 0)
"""Stands among such parts for the names of the request's tools: a JSON list, null where its host never told them."""


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


class Ask(msgspec.Struct, frozen=True):
    """The pass as a lane sees it.

    ``permission`` is the pass's one permission: a lane plans the same without it, and what it plans is then only told.
    ``begin``: first path index that may be edited; ``tools``: tool tags from there on, oldest first; ``spared``: tags
    no lane takes out by itself; ``recent``: the newest tool tags, of which small calls keep a skeleton; ``rides``:
    something else already rewrites the prefix on this pass; ``routine``: the once-per-episode cleanup may run;
    ``queued``: what the queue can do; ``taken`` and ``freed``: the tags lanes before this one take out, and the local
    tokens they free, ``absent`` the parts of which nothing is left by them, ``first`` the first path index they or the
    host change;
    ``headed``: the pass also renders the head anew, so that all behind it moves; ``facts``: contents lanes asked for,
    as a person reads them (a call's are its arguments as JSON). ``start``: first path index the request sends;
    ``wanted``: what the lanes do lands whatever it frees, else only if it is more than ``least`` tokens; ``net``: what
    the lanes before this one free, ``busy``: whether they do anything; ``thinned``: tokens of parts that
    stay which are no longer sent by them.
    """

    scene: Scene
    settings: Settings
    gauge: Pressure
    permission: Permission
    begin: int
    tools: tuple[int, ...]
    spared: frozenset[int]
    recent: frozenset[int]
    rides: bool
    routine: bool
    queued: tuple[Item, ...] = ()
    facts: Mapping[Part, str] = MappingProxyType({})
    taken: frozenset[int] = frozenset()
    freed: int = 0
    absent: frozenset[Part] = frozenset()
    first: int | None = None
    headed: bool = False
    model: str = ""
    start: int = 0
    wanted: bool = False
    least: int = 0
    net: int = 0
    busy: bool = False
    thinned: Mapping[Part, int] = MappingProxyType({})

    def unsent(self, m: int, p: int) -> int:
        """Return the tokens of a part that are no longer sent, with what the lanes before this one do."""
        return self.thinned.get((m, p), self.scene.state.spares.get(key(m, p), 0))


def chunk(text: str, into: dict[bytes, bytes]) -> bytes:
    """Put a text an edit names into ``into``, as a chunk; return its name."""
    body = text.encode("utf-8", "surrogatepass")
    digest = sha256(body).digest()
    into[digest] = body
    return digest


class Work(msgspec.Struct, frozen=True):
    """What one lane does on this pass. ``texts``: chunks its edits and inserts name, by digest."""

    lane: str
    items: tuple[Item, ...] = ()
    texts: Mapping[bytes, bytes] = MappingProxyType({})
    inserts: tuple[Insert, ...] = ()

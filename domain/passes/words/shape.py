"""What every word is handed and what it gives back: one input, one kind of answer."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType

import msgspec

from ... import events as ev
from ...edits import Arrival, Insert, SetText
from ...history.words import meaningful
from ...identity import Scene
from ...policy import Settings
from ...transcript import Result, Text
from ..heard import Heard
from ..lanes.shape import Part


class Listener(msgspec.Struct, frozen=True):
    """What a word is handed: the pass, its settings, its time, what is new and what is newest in it.

    ``facts``: contents words asked for, as a person reads them (a call's are its arguments as JSON); ``heard``: what
    ports answered; ``notes``, ``search``: there is somebody to ask for these.
    """

    scene: Scene
    settings: Settings
    now: int
    newest: Arrival
    arrivals: tuple[Arrival, ...] = ()
    facts: Mapping[Part, str] = MappingProxyType({})
    heard: Heard = Heard()
    notes: bool = False
    search: bool = False

    @property
    def end(self) -> bool:
        """Whether the newest arrival ends the request: only behind it something can be said."""
        return self.newest.m == self.scene.at(self.scene.length() - 1)

    @property
    def able(self) -> bool:
        """Whether the agent can mark anything, and what is counted is of this history: not of one the host changed."""
        return self.scene.state.reduce and self.settings.compaction and not self.scene.seen.cause

    @property
    def hosted(self) -> bool:
        """Whether a person works in this session and foldlog manages it (8.1)."""
        return self.scene.state.primary and self.settings.compaction

    def prompt(self) -> tuple[int, ...]:
        """Return the texts of a person's message that is whole new and ends the request: its parts; else nothing."""
        message = self.scene.message(self.newest.m)
        results = any(isinstance(part, Result) for part in message.parts)
        if self.newest.first or not self.end or message.role != "user" or results:
            return ()
        return tuple(p for p, part in enumerate(message.parts) if isinstance(part, Text) and not part.blank)

    def unread(self, parts: frozenset[Part]) -> frozenset[Part]:
        """Return those parts whose contents are not known yet."""
        return parts - self.facts.keys()

    def spoken(self, parts: tuple[int, ...]) -> list[str]:
        """Return the contents of these parts of the newest message, nothing where a person says nothing by them."""
        texts = [self.facts.get((self.newest.m, p), "") for p in parts]
        return texts if meaningful(texts) else []


class Wants(msgspec.Struct, frozen=True):
    """What a word has to know first: contents of parts, whether notes wait, what a search finds."""

    parts: frozenset[Part] = frozenset()
    notes: bool = False
    query: str = ""


class Spoken(msgspec.Struct, frozen=True):
    """One thing said: a text in a part of the newest arrival, or a message of its own; either names the text.

    Or nothing, and what is kept all the same: ``noticed``, ``asked``, with their texts in ``kept``. ``failed``: how
    what it asked broke.
    """

    said: SetText | Insert | None
    text: bytes = b""
    noticed: tuple[ev.Noticed, ...] = ()
    asked: ev.Asked | None = None
    kept: Mapping[bytes, bytes] = MappingProxyType({})
    failed: str = ""


def digest(text: str) -> tuple[bytes, bytes]:
    """Return a text as a chunk: its digest and its bytes."""
    data = text.encode()
    return sha256(data).digest(), data

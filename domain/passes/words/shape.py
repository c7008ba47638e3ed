"""What every word is handed and what it gives back: one input, one kind of answer."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from ...edits import Arrival, Insert, SetText
from ...identity import Scene
from ...policy import Settings


class Listener(msgspec.Struct, frozen=True):
    """What a word is handed: the pass, its settings, its time, and what is newest in it."""

    scene: Scene
    settings: Settings
    now: int
    newest: Arrival

    @property
    def end(self) -> bool:
        """Whether the newest arrival ends the request: only behind it something can be said."""
        return self.newest.m == self.scene.at(self.scene.length() - 1)

    @property
    def able(self) -> bool:
        """Whether the agent can mark anything, and what is counted is of this history: not of one the host changed."""
        return self.scene.state.reduce and self.settings.compaction and not self.scene.seen.cause


class Spoken(msgspec.Struct, frozen=True):
    """One thing said: a text in a part of the newest arrival, or a message of its own; either names the text."""

    said: SetText | Insert
    text: bytes


def digest(text: str) -> tuple[bytes, bytes]:
    """Return a text as a chunk: its digest and its bytes."""
    data = text.encode()
    return sha256(data).digest(), data

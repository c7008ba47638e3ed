"""What foldlog says to the agent beside its content: how long a person was away, and what could be marked as spent.

Each is a text in the event of the pass that first shows it, at the very end of the request, so it changes no byte that
was sent before and is replayed like everything else (``transform.md`` 6). A word is a module; adding one is adding a
module and a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from ...edits import Arrival, Insert, SetText
from ...errors import how
from ...hygiene import UNCOUNTED
from ...identity import Scene
from ...policy import Settings
from ..tagger import Tagged
from . import nudges, silence
from .shape import Listener, Spoken


class Said(msgspec.Struct, frozen=True):
    """The arrivals with what is said in them, messages of our own behind the last part, and the texts of both.

    ``failed``: words that broke and are left out of this pass, each with how and where (FAIL-1).
    """

    arrivals: tuple[Arrival, ...]
    inserts: tuple[Insert, ...] = ()
    texts: Mapping[bytes, bytes] = MappingProxyType({})
    tokens: int = 0
    failed: tuple[tuple[str, str], ...] = ()


class Word(NamedTuple):
    """A row of the table: what it is called, and what it says, None for nothing."""

    name: str
    say: Callable[[Listener], Spoken | None]


WORDS = (Word("time", silence.away), Word("appeal", nudges.appeal), Word("nudge", nudges.nudge))
"""In this order; a nudge is not added to an appeal."""


def say(scene: Scene, tagged: Tagged, settings: Settings, now: int) -> Said:
    """Return the arrivals of a pass with what has to be said. Of a side request nothing is.

    What breaks is left out and named: nothing here changes what was sent before, and a turn is worth more than a hint.
    """
    if scene.seen.side or not tagged.arrivals:
        return Said(tagged.arrivals)
    to = Listener(scene, settings, now, tagged.arrivals[-1])
    found: list[Spoken] = []
    failed = [("hygiene", "what is spent could not be counted")] if scene.state.tail == UNCOUNTED else []
    for word in WORDS:
        if word.name == "nudge" and any(isinstance(one.said, Insert) for one in found):
            continue  # it is told more loudly already
        try:
            spoken = word.say(to)
        except Exception as error:  # noqa: BLE001 - whatever it is, it may not cost a turn (FAIL-1)
            failed.append((word.name, how(error)))
        else:
            found += [spoken] if spoken is not None else []
    edits = tuple(one.said for one in found if isinstance(one.said, SetText))
    newest = msgspec.structs.replace(to.newest, edits=(*to.newest.edits, *edits))
    return Said(
        (*tagged.arrivals[:-1], newest),
        tuple(one.said for one in found if isinstance(one.said, Insert)),
        {one.said.text: one.text for one in found},
        sum(len(one.text) // 4 for one in found),
        tuple(failed),
    )

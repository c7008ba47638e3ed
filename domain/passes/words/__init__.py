"""What foldlog says to the agent beside its content: silences, what may be spent, notes that wait, what a search found.

Each is a text in the event of the pass that first shows it, at the very end of the request, so it changes no byte that
was sent before and is replayed like everything else (``transform.md`` 6). A word is a module; adding one is adding a
module and a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from ... import events as ev
from ...edits import Arrival, Insert, SetText
from ...errors import how
from ...hygiene import UNCOUNTED
from ...identity import Scene
from ..given import Given, Need
from ..heard import Heard
from ..lanes.shape import Part
from ..tagger import Tagged
from . import hints, notes, nudges, silence
from .shape import Listener, Spoken, Wants


class Said(msgspec.Struct, frozen=True):
    """The arrivals with what is said in them, messages of our own behind the last part, and the texts of both.

    ``failed``: words that broke and are left out of this pass, each with how and where (FAIL-1). ``noticed``,
    ``asked``: what the pass event keeps of it. ``missing``: what has to be known first; then nothing else counts.
    """

    arrivals: tuple[Arrival, ...]
    inserts: tuple[Insert, ...] = ()
    texts: Mapping[bytes, bytes] = MappingProxyType({})
    tokens: int = 0
    failed: tuple[tuple[str, str], ...] = ()
    noticed: tuple[ev.Noticed, ...] = ()
    asked: tuple[ev.Asked, ...] = ()
    missing: Need | None = None


class Word(NamedTuple):
    """A row of the table: what it is called, what it says, None for nothing, and what it has to know for it."""

    name: str
    say: Callable[[Listener], Spoken | None]
    wants: Callable[[Listener], Wants] | None = None


WORDS = (
    Word("time", silence.away),
    Word("hint", hints.say, hints.wants),
    Word("note", notes.say, notes.wants),
    Word("appeal", nudges.appeal),
    Word("nudge", nudges.nudge, nudges.wants),
)
"""In this order; a nudge is not added to an appeal."""


def say(
    scene: Scene,
    tagged: Tagged,
    given: Given,
    now: int,
    facts: Mapping[Part, str] = MappingProxyType({}),
    heard: Heard = Heard(),  # noqa: B008 - it is frozen
) -> Said:
    """Return the arrivals of a pass with what has to be said, or what is missing. Of a side request nothing is said.

    What breaks is left out and named: nothing here changes what was sent before, and a turn is worth more than a hint.
    """
    if scene.seen.side or not tagged.arrivals:
        return Said(tagged.arrivals)
    to = Listener(
        scene, given.settings, now, tagged.arrivals[-1], tagged.arrivals, facts, heard, given.notes, given.search
    )
    failed = [("hygiene", "what is spent could not be counted")] if scene.state.tail == UNCOUNTED else []
    wanted: list[Wants] = []
    able: list[Word] = []
    for word in WORDS:
        try:
            wants = word.wants(to) if word.wants is not None else Wants()
        except Exception as error:  # noqa: BLE001 - whatever it is, it may not cost a turn (FAIL-1)
            failed.append((word.name, how(error)))
            continue
        if wants.parts and heard.unread:
            failed.append((word.name, heard.unread))
            continue
        able.append(word)
        wanted += [wants] if wants != Wants() else []
    if wanted:
        return Said(tagged.arrivals, missing=_need(wanted))
    found = _spoken(to, able, failed)
    return _said(to, tagged, found, failed)


def _need(wanted: list[Wants]) -> Need:
    parts = frozenset[Part]().union(*(one.parts for one in wanted))
    query = next((one.query for one in wanted if one.query), "")
    return Need(parts=parts, words=True, notes=any(one.notes for one in wanted), query=query)


def _spoken(to: Listener, able: list[Word], failed: list[tuple[str, str]]) -> list[Spoken]:
    found: list[Spoken] = []
    for word in able:
        if word.name == "nudge" and any(isinstance(one.said, Insert) for one in found):
            continue  # it is told more loudly already
        try:
            spoken = word.say(to)
        except Exception as error:  # noqa: BLE001 - as above (FAIL-1)
            failed.append((word.name, how(error)))
            continue
        if spoken is not None:
            found.append(spoken)
            failed += [(word.name, spoken.failed)] if spoken.failed else []
    return found


def _said(to: Listener, tagged: Tagged, found: list[Spoken], failed: list[tuple[str, str]]) -> Said:
    said = [one for one in found if one.said is not None]
    edits = tuple(one.said for one in said if isinstance(one.said, SetText))
    newest = msgspec.structs.replace(to.newest, edits=(*to.newest.edits, *edits))
    texts = {one.said.text: one.text for one in said if one.said is not None}
    for one in found:
        texts.update(one.kept)
    return Said(
        (*tagged.arrivals[:-1], newest),
        tuple(_counted(one.said, one.text) for one in said if isinstance(one.said, Insert)),
        texts,
        sum(len(one.text) // 4 for one in said),
        tuple(failed),
        tuple(one for spoken in found for one in spoken.noticed),
        tuple(spoken.asked for spoken in found if spoken.asked is not None),
    )


def hushed(said: Said) -> Said:
    """Return what is said without a nudge or an appeal: what could be marked was counted before this pass took it."""
    if not said.arrivals:
        return said
    newest = said.arrivals[-1]
    nudges = [edit for edit in newest.edits if isinstance(edit, SetText) and edit.kind == "nudge"]
    edits = tuple(edit for edit in newest.edits if edit not in nudges)
    gone = {edit.text for edit in nudges} | {insert.text for insert in said.inserts}
    return msgspec.structs.replace(
        said,
        arrivals=(*said.arrivals[:-1], msgspec.structs.replace(newest, edits=edits)) if nudges else said.arrivals,
        inserts=(),
        texts={name: data for name, data in said.texts.items() if name not in gone},
    )


def _counted(insert: Insert, text: bytes) -> Insert:
    return msgspec.structs.replace(insert, tokens=len(text) // 4)

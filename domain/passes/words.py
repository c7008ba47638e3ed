"""What foldlog says to the agent beside its content: how long a person was away, and what could be marked as spent.

Each is a text in the event of the pass that first shows it, at the very end of the request, so it changes no byte that
was sent before and is replayed like everything else (``transform.md`` 6).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from ..arcs import call_part
from ..edits import Arrival, Insert, SetText
from ..errors import how
from ..hygiene import LARGE, LEVELS, UNCOUNTED, WORTH, level, severity
from ..identity import Scene
from ..policy import Settings
from ..state import State
from ..transcript import Result, Text
from .tagger import Tagged

AWAY = 300_000
"""Milliseconds of silence from which it is said (6.7)."""
NAMED, NAMED_WORTH = 4, 250
CALL_WORTH, CALL_SHARE = 50_000, 75
"""Tokens spent, and share in per cent, from which it is told in a message of its own (6.3)."""


class Said(msgspec.Struct, frozen=True):
    """The arrivals with what is said in them, messages of our own behind the last part, and the texts of both.

    ``failed``: words that broke and are left out of this pass, each with how and where (FAIL-1).
    """

    arrivals: tuple[Arrival, ...]
    inserts: tuple[Insert, ...] = ()
    texts: Mapping[bytes, bytes] = MappingProxyType({})
    tokens: int = 0
    failed: tuple[tuple[str, str], ...] = ()


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
        """Whether the agent can mark anything."""
        return self.scene.state.reduce and self.settings.compaction


class Spoken(msgspec.Struct, frozen=True):
    """One thing said: a text in a part of the newest arrival, or a message of its own; either names the text."""

    said: SetText | Insert
    text: bytes


class Word(NamedTuple):
    """A row of the table: what it is called, and what it says, None for nothing."""

    name: str
    say: Callable[[Listener], Spoken | None]


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


def _digest(text: str) -> tuple[bytes, bytes]:
    data = text.encode()
    return sha256(data).digest(), data


# ------------------------------------------------------------------ time


def away(to: Listener) -> Spoken | None:
    """Say before a person's newest words how long the session was silent."""
    state, newest = to.scene.state, to.newest
    gap = to.now - state.response_now
    if not to.settings.temporal or not state.response_now or gap < AWAY or not to.end:
        return None
    message = to.scene.message(newest.m)
    if message.role != "user" or any(isinstance(part, Result) for part in message.parts):
        return None
    for p, part in enumerate(message.parts):
        if isinstance(part, Text) and not part.blank and p >= newest.first:
            digest, data = _digest(f"<!-- {gap_text(gap)} -->\n")
            return Spoken(SetText(newest.m, p, "pre", "time", digest), data)
    return None


def gap_text(gap: int) -> str:
    """Return a span of milliseconds in its two largest units: ``+12m``, ``+3h 5m``, ``+2d``, ``+1w 3d``."""
    minutes = gap // 60_000
    hours, days = minutes // 60, minutes // 1_440
    if hours < 1:
        return f"+{minutes}m"
    if days < 1:
        return _units(hours, "h", minutes % 60, "m")
    return _units(days, "d", hours % 24, "h") if days < 7 else _units(days // 7, "w", days % 7, "d")


def _units(large: int, name: str, small: int, other: str) -> str:
    return f"+{large}{name} {small}{other}" if small else f"+{large}{name}"


# ---------------------------------------------------------------- nudges


def nudge(to: Listener) -> Spoken | None:
    """Say behind the newest tool output what could be marked; again only where it grew, or grew louder."""
    state, newest = to.scene.state, to.newest
    loud = level(state) if to.able else ""
    if not loud or not to.end:
        return None
    if state.nudged is not None:
        before, spent = state.nudged
        louder = _loudness(loud) > _loudness(before)
        if not louder and state.spent < spent + max(WORTH, state.tail * 8 // 100):
            return None
    parts = to.scene.message(newest.m).parts
    last = next((p for p in range(len(parts) - 1, newest.first - 1, -1) if isinstance(parts[p], Result)), -1)
    if last < 0:
        return None
    digest, data = _digest(f"\n\n<system-reminder>\n{_words(state, loud)}\n</system-reminder>")
    return Spoken(SetText(newest.m, last, "post", "nudge", digest), data)


def _loudness(name: str) -> int:
    names = [other for _, other in reversed(LEVELS)]
    return names.index(name) if name in names else -1


def _words(state: State, loud: str) -> str:
    names = _oldest(state)
    said = {
        "gentle": "When you have what you need from them, mark them with ctx_reduce.",
        "firm": "At the next natural stop, go through them and mark what is spent with ctx_reduce.",
        "urgent": "Mark what is spent with ctx_reduce now, before you go on.",
    }[loud]
    shown = f" The oldest: {', '.join(names)}." if names else ""
    return f"About {state.spent // 1000}k tokens of tool output here may be spent.{shown} {said}"


def _oldest(state: State) -> list[str]:
    found: list[str] = []
    for number in state.tools_order[: state.edge]:
        tag = state.tags[number - 1]
        call = call_part(state, tag.m, tag.p)
        here = tag.status == "active" and number not in state.queue and state.pos.get(tag.m, -1) >= state.start()
        if here and call is not None and tag.tokens >= NAMED_WORTH and call.name.lower() != "todowrite":
            found.append(f"§{number}§ {call.name}")
        if len(found) == NAMED:
            break
    return found


def appeal(to: Listener) -> Spoken | None:
    """Say it in a message of its own, once, where nearly all that is sent is spent."""
    state, m = to.scene.state, to.newest.m
    ready = state.tail >= LARGE and state.spent >= CALL_WORTH and severity(state) >= CALL_SHARE
    if not ready or not to.able or state.called or state.reduced:
        return None
    message = to.scene.message(m)
    if not to.end or message.role not in ("user", "tool"):
        return None
    digest, data = _digest(
        f"Most of what is sent with each step, about {state.spent // 1000}k tokens, is tool output that may be spent. "
        "Before anything else, mark what you no longer need with ctx_reduce; it can be brought back with ctx_expand."
    )
    return Spoken(Insert(m, len(message.parts) - 1, f"call-{state.passes + 1}", "text", digest, "user"), data)


WORDS = (Word("time", away), Word("appeal", appeal), Word("nudge", nudge))
"""In this order; a nudge is not added to an appeal."""

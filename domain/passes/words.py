"""What foldlog says to the agent beside its content: how long a person was away, and what could be marked as spent.

Each is a text in the event of the pass that first shows it, at the very end of the request, so it changes no byte that
was sent before and is replayed like everything else (``transform.md`` 6).
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from ..arcs import call_part
from ..edits import Arrival, Edit, Insert, SetText
from ..hygiene import LARGE, LEVELS, WORTH, level, severity
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
    """The arrivals with what is said in them, messages of our own behind the last part, and the texts of both."""

    arrivals: tuple[Arrival, ...]
    inserts: tuple[Insert, ...]
    texts: dict[bytes, bytes]
    tokens: int = 0


def say(scene: Scene, tagged: Tagged, settings: Settings, now: int) -> Said:
    """Return the arrivals of a pass with what has to be said. Of a side request nothing is."""
    if scene.seen.side:
        return Said(tagged.arrivals, (), {})
    texts: dict[bytes, bytes] = {}
    arrivals = list(tagged.arrivals)
    if settings.temporal:
        _away(scene, arrivals, now, texts)
    inserts: tuple[Insert, ...] = ()
    if scene.state.reduce and settings.compaction:
        inserts = _call(scene, arrivals, texts)
        if not inserts:
            _nudge(scene, arrivals, texts)
    return Said(tuple(arrivals), inserts, texts, sum(len(text) // 4 for text in texts.values()))


def _chunk(text: str, texts: dict[bytes, bytes]) -> bytes:
    data = text.encode()
    digest = sha256(data).digest()
    texts[digest] = data
    return digest


def _with(arrivals: list[Arrival], place: int, edit: Edit) -> None:
    arrival = arrivals[place]
    arrivals[place] = msgspec.structs.replace(arrival, edits=(*arrival.edits, edit))


# ------------------------------------------------------------------ time


def _away(scene: Scene, arrivals: list[Arrival], now: int, texts: dict[bytes, bytes]) -> None:
    """Say before a person's newest words how long the session was silent."""
    state = scene.state
    gap = now - state.response_now
    if not state.response_now or gap < AWAY or not arrivals or arrivals[-1].m != scene.at(scene.length() - 1):
        return
    message = scene.message(arrivals[-1].m)
    if message.role != "user" or any(isinstance(part, Result) for part in message.parts):
        return
    for p, part in enumerate(message.parts):
        if isinstance(part, Text) and not part.blank and p >= arrivals[-1].first:
            text = f"<!-- {gap_text(gap)} -->\n"
            _with(arrivals, len(arrivals) - 1, SetText(arrivals[-1].m, p, "pre", "time", _chunk(text, texts)))
            return


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


def _nudge(scene: Scene, arrivals: list[Arrival], texts: dict[bytes, bytes]) -> None:
    """Say behind the newest tool output what could be marked; again only where it grew, or grew louder."""
    state = scene.state
    loud = level(state)
    if not loud or not arrivals or arrivals[-1].m != scene.at(scene.length() - 1):
        return
    if state.nudged is not None:
        before, spent = state.nudged
        louder = _loudness(loud) > _loudness(before)
        if not louder and state.spent < spent + max(WORTH, state.tail * 8 // 100):
            return
    arrival = arrivals[-1]
    parts = scene.message(arrival.m).parts
    last = next((p for p in range(len(parts) - 1, arrival.first - 1, -1) if isinstance(parts[p], Result)), -1)
    if last >= 0:
        text = f"\n\n<system-reminder>\n{_words(state, loud)}\n</system-reminder>"
        _with(arrivals, len(arrivals) - 1, SetText(arrival.m, last, "post", "nudge", _chunk(text, texts)))


def _loudness(name: str) -> int:
    return [other for _, other in reversed(LEVELS)].index(name)


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


def _call(scene: Scene, arrivals: list[Arrival], texts: dict[bytes, bytes]) -> tuple[Insert, ...]:
    """Say it in a message of its own, once, where nearly all that is sent is spent."""
    state = scene.state
    ready = state.tail >= LARGE and state.spent >= CALL_WORTH and severity(state) >= CALL_SHARE
    if not ready or state.called or state.reduced or not arrivals:
        return ()
    m = arrivals[-1].m
    message = scene.message(m)
    if m != scene.at(scene.length() - 1) or message.role not in ("user", "tool"):
        return ()
    text = (
        f"Most of what is sent with each step, about {state.spent // 1000}k tokens, is tool output that may be spent. "
        "Before anything else, mark what you no longer need with ctx_reduce; it can be brought back with ctx_expand."
    )
    insert = Insert(m, len(message.parts) - 1, f"call-{state.passes + 1}", "text", _chunk(text, texts), "user")
    return (insert,)

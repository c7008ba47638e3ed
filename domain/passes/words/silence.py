"""Word: how long a person was away, before the first of the new words (``transform.md`` 6.7)."""

from __future__ import annotations

from ...edits import SetText
from ...transcript import Result, Text
from .shape import Listener, Spoken, digest

AWAY = 300_000
"""Milliseconds of silence from which it is said."""


def away(to: Listener) -> Spoken | None:
    """Say before a person's newest words how long the session was silent."""
    state, newest = to.scene.state, to.newest
    gap = to.now - state.response_now
    wanted = to.settings.temporal and to.settings.compaction
    if not wanted or not state.response_now or gap < AWAY or not to.end:
        return None
    message = to.scene.message(newest.m)
    if message.role != "user" or any(isinstance(part, Result) for part in message.parts):
        return None
    for p, part in enumerate(message.parts):
        if isinstance(part, Text) and not part.blank and p >= newest.first:
            name, data = digest(f"<!-- {gap_text(gap)} -->\n")
            return Spoken(SetText(newest.m, p, "pre", "time", name), data)
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

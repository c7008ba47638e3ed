"""Words: what could be marked as spent, behind an output or in a message of its own (``transform.md`` 6.1 to 6.3)."""

from __future__ import annotations

from ... import costs
from ...arcs import call_part
from ...edits import Insert, SetText
from ...hygiene import LARGE, LEVELS, WORTH, level, severity
from ...state import State
from ...todos import keeps_list
from ...transcript import Result
from .shape import Listener, Spoken, digest

NAMED, NAMED_WORTH = 4, 250
CALL_WORTH, CALL_SHARE = 50_000, 75
"""Tokens spent, and share in per cent, from which it is told in a message of its own (6.3)."""


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
    name, data = digest(f"\n\n<system-reminder>\n{_words(state, loud)}\n</system-reminder>")
    return Spoken(SetText(newest.m, last, "post", "nudge", name), data)


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
        if here and call is not None and costs.of(state, tag) >= NAMED_WORTH and not keeps_list(call.name):
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
    name, data = digest(
        f"Most of what is sent with each step, about {state.spent // 1000}k tokens, is tool output that may be spent. "
        "Before anything else, mark what you no longer need with ctx_reduce; it can be brought back with ctx_expand."
    )
    return Spoken(Insert(m, len(message.parts) - 1, f"call-{state.passes + 1}", "text", name, "user"), data)

"""Words: what could be marked as spent, behind an output or in a message of its own (``transform.md`` 6.1 to 6.3)."""

from __future__ import annotations

from ...arcs import call_part
from ...edits import Insert, SetText
from ...errors import counted
from ...hygiene import LARGE, LEVELS, WORTH, level, severity
from ...state import State
from ...transcript import Result, speaks
from ..lanes.shape import Part
from .shape import Listener, Spoken, Wants, digest

NAMED = 4
CALL_WORTH, CALL_SHARE = 50_000, 75
"""Tokens spent, and share in per cent, from which it is told in a message of its own (6.3)."""
TURNS = 3
"""Turns of a person within which the same is said again in fewer words."""
REMINDER = "<system-reminder>"
"""An output that holds this already gets none of ours: two of them read as one, or as the host's (6.2)."""


def wants(to: Listener) -> Wants:
    """Return the newest output where a nudge is due: only then it is read."""
    part = _place(to) if _due(to) else None
    return Wants(to.unread(frozenset((part,)))) if part is not None else Wants()


def nudge(to: Listener) -> Spoken | None:
    """Say behind the newest tool output what could be marked; again only where it grew, or grew louder."""
    loud = _due(to)
    part = _place(to) if loud else None
    if part is None or not _takes(to, part):
        return None
    words = _again(to.scene.state) if _repeats(to, loud) else _words(to.scene.state, loud)
    name, data = digest(f"\n\n{REMINDER}\n{words}\n</system-reminder>")
    return Spoken(SetText(*part, "post", "nudge", name), data)


def _due(to: Listener) -> str:
    """Return how loud a nudge of this pass would be, empty for none."""
    state = to.scene.state
    loud = level(state) if to.able else ""
    if not loud or not to.end:
        return ""
    if state.nudged is not None:
        before, spent, _ = state.nudged
        louder = _loudness(loud) > _loudness(before)
        if not louder and state.spent < spent + max(WORTH, state.tail * 8 // 100):
            return ""
    return loud


def _place(to: Listener) -> Part | None:
    """Return the newest tool output of what is new, None where there is none."""
    m, parts = to.newest.m, to.scene.message(to.newest.m).parts
    places = range(len(parts) - 1, to.newest.first - 1, -1)
    return next(((m, p) for p in places if isinstance(parts[p], Result)), None)


def _takes(to: Listener, part: Part) -> bool:
    """Whether an output has words, and no reminder among them. Files in it are told as a line each."""
    output, said = to.scene.message(part[0]).parts[part[1]], to.facts.get(part, "")
    lines = sum(not line.isspace() for line in said.splitlines() if line)
    return isinstance(output, Result) and lines > output.media and REMINDER not in said


def _repeats(to: Listener, loud: str) -> bool:
    """Whether a nudge as loud as this one still stands in the request, a few turns back at most."""
    scene, told = to.scene, to.scene.state.nudged
    place = scene.index(told[2]) if told is not None and told[0] == loud else -1
    if place < scene.start() or place < 0:
        return False
    behind = (scene.message(scene.at(index)) for index in range(place + 1, scene.length()))
    return sum(speaks(message) for message in behind) < TURNS


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
    return f"{_much(state)} here may be spent.{shown} {said}"


def _again(state: State) -> str:
    return f"{_much(state)} by now: ctx_reduce."


def _much(state: State) -> str:
    """Return how much nothing protects, in outputs, files and tokens."""
    counts = ((state.outputs, "tool output"), (state.files, "file"))
    what = " and ".join(counted(count, one) for count, one in counts if count)
    return f"{what}, about {state.spent // 1000}k tokens,"


def _oldest(state: State) -> list[str]:
    """Return the first of these that are not marked, by number and tool."""
    unmarked = [number for number in state.oldest if number not in state.queue]
    tags = ((number, state.tags[number - 1]) for number in unmarked[:NAMED])
    calls = ((number, tag.kind, call_part(state, tag.m, tag.p)) for number, tag in tags)
    return [f"§{number}§ {call.name if call is not None else kind}" for number, kind, call in calls]


def appeal(to: Listener) -> Spoken | None:
    """Say it in a message of its own, once, where nearly all that is sent is spent."""
    state, m = to.scene.state, to.newest.m
    ready = state.tail >= LARGE and state.spent >= CALL_WORTH and severity(state) >= CALL_SHARE
    if not ready or not to.able or state.called or state.reduced:
        return None
    message = to.scene.message(m)
    if not to.end or message.role not in ("user", "tool"):
        return None
    what = " and ".join(one for one, count in (("tool output", state.outputs), ("files", state.files)) if count)
    name, data = digest(
        f"Most of what is sent with each step, about {state.spent // 1000}k tokens, is {what} that may be spent. "
        "Before anything else, mark what you no longer need with ctx_reduce; it can be brought back with ctx_expand."
    )
    return Spoken(Insert(m, len(message.parts) - 1, f"call-{state.passes + 1}", "text", name, "user"), data)

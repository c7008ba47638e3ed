"""Why a part looks as it does: the chain of events behind its present form, from the log alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..domain import events as ev
from ..domain.edits import Arrival, Edit, Insert, SetBody, SetMedia, SetShape, SetTag, SetText, SetThink
from ..domain.errors import UnknownTag
from ..domain.identity import Observation, Scene
from ..domain.passes.lanes import todo
from ..domain.state import PARTS_LIMIT, State, key
from ..domain.todos import is_ours
from ..domain.transcript import Call, Message
from .fold import Folded, Source, load, take
from .request import level
from .view import View

_KINDS = {
    "Text": "text", "Call": "tool call", "Result": "tool result", "Thinking": "reasoning", "Media": "file",
    "Other": "other",
}  # fmt: skip


class Step(msgspec.Struct, frozen=True):
    """One event that made the part what it is. ``number``: its pass, 0 if none; ``times``: said so often in a row."""

    stream: str
    version: int
    at: int
    event: str
    number: int
    what: str
    times: int = 1
    until: int = 0


class Why(msgspec.Struct, frozen=True):
    """A numbered part: where it is, what it is now, and every event behind that. Sizes in tokens and bytes.

    ``status``: ``active``, ``queued``, ``dropped``, or ``covered``: a summary of history stands for its message.
    """

    tag: int
    m: int
    p: int
    kind: str
    tokens: int
    size: int
    status: str
    on_path: bool
    present: str
    steps: tuple[Step, ...]


class _Before(msgspec.Struct, frozen=True):
    """How a part stood before an event: on the path, queued, covered by a summary."""

    here: bool
    queued: bool
    covered: bool


class _Target(msgspec.Struct, frozen=True):
    """The part that is asked about, and the call it answers (0: none)."""

    tag: int
    m: int
    p: int
    cm: int
    cp: int
    body: bytes


def why(source: Source, stream: str, tag: int) -> Why:
    """Tell how part ``tag`` came to its present form. Raises ``UnknownTag``, ``StoreDamaged``."""
    folded = load(source, stream)
    state = folded.state
    if not 0 < tag <= len(state.tags):
        given = f"it gave out 1 to {len(state.tags)}" if state.tags else "it gave out none"
        raise UnknownTag(f"no part of this session has that number; {given}", value=tag, where=stream)
    found = state.tags[tag - 1]
    cm, cp = divmod(state.call_of.get(key(found.m, found.p), 0), PARTS_LIMIT)
    target = _Target(tag, found.m, found.p, cm, cp, found.body)
    part = state.node(found.m).message.parts[found.p]
    return Why(
        tag=tag,
        m=found.m,
        p=found.p,
        kind=_KINDS.get(type(part).__name__, "part"),
        tokens=found.tokens,
        size=part.size,
        status=_status(state, target),
        on_path=found.m in state.pos,
        present=_present(state, folded.view, target),
        steps=_collapsed(_steps(source, stream, target)),
    )


def _status(state: State, target: _Target) -> str:
    if _covered(state, target):
        return "covered"
    return "queued" if target.tag in state.queue else state.tags[target.tag - 1].status


def _present(state: State, view: View, target: _Target) -> str:
    slots = view.of(target.m)
    if target.m not in state.pos:
        return "not sent: its message is not on the present path"
    if _covered(state, target):
        return "not sent: a summary of history stands for its message"
    if slots.shape != "keep":
        return (
            "not sent: its message is left out"
            if slots.shape == "absent"
            else "its message is a shell with a text of ours"
        )
    part = slots.parts[target.p] if target.p < len(slots.parts) else None
    if part is None:
        return "not in any request yet"
    if part.body == "absent":
        return "not sent: dropped together with its call" if target.cm else "not sent: dropped"
    if part.body == "placeholder":
        return f"sent as the placeholder [dropped §{target.tag}§]"
    said = {"raw": "sent whole", "text": "sent with a text in its place", "empty": "sent empty"}.get(
        part.body, f"sent as {part.body}"
    )
    said += f" as §{part.tag}§" if part.tag > 0 else ", its number not shown"
    return said + (", without its media" if part.media == "strip" else "")


def _covered(state: State, target: _Target) -> bool:
    return 0 <= state.pos.get(target.m, -1) < state.start()


def _steps(source: Source, stream: str, target: _Target) -> Iterator[Step]:
    for name, upto in reversed(list(_lineage(source, stream))):
        folded = Folded(State(stream=name), View())
        for stored in source.read(name, 0, upto):
            nodes = len(folded.state.nodes)
            before = _Before(
                target.m in folded.state.pos, target.tag in folded.state.queue, _covered(folded.state, target)
            )
            take(source, folded, stored)
            event = stored.event
            number = getattr(event, "number", 0)
            for what in _tell(folded.state, event, target, nodes, before):
                yield Step(name, stored.version, event.at, type(event).__name__, number, what)


def _lineage(source: Source, stream: str) -> Iterator[tuple[str, int | None]]:
    """Yield the stream and, for a fork, its parents, each with the version up to which it counts."""
    upto: int | None = None
    while True:
        yield stream, upto
        first = next(iter(source.read(stream, 0, 1)), None)
        if first is None or not isinstance(first.event, ev.SessionForked):
            return
        stream, upto = first.event.parent, first.event.version


def _tell(state: State, event: ev.Event, target: _Target, nodes: int, before: _Before) -> Iterator[str]:
    """Yield what one event, just taken in, did to the part. ``nodes``, ``before``: how it stood before."""
    if isinstance(event, ev.MessagesObserved):
        yield from _observed(event.messages, target, nodes)
    elif isinstance(event, ev.PartsRevised):
        if event.m == target.m and event.first <= target.p:
            yield f"the host changed message {target.m} from part {event.first} on: earlier edits of it are void"
    elif isinstance(event, ev.DropsQueued):
        if target.tag in event.tags and not before.queued:
            yield "queued: the agent marked it as spent" + (f" (call {event.cmd})" if event.cmd else "")
    elif isinstance(event, (ev.FlushRequested, ev.CacheLossReported)):
        if before.queued:
            if isinstance(event, ev.CacheLossReported):
                yield f"the provider's cache was reported lost: {event.reason}"
            else:
                yield "a person asked for queued work to land"
    elif isinstance(event, ev.HeadMoved | ev.SessionForked):
        yield from _moved(state, event, target, before.here)
    elif isinstance(event, ev.PurgeRequested):
        if target.body in event.chunks:
            yield f"its content was destroyed: {event.scope}"
    elif isinstance(event, ev.LastGoodReplayed):
        if any(_holds(arrival, target) for arrival in event.arrivals):
            yield f"numbered §{target.tag}§ and sent as it came, without the number: the store could not be written"
    elif isinstance(event, ev.Pass):
        yield from _passed(state, event, target, before)
    if before.covered and target.m in state.pos and not _covered(state, target):
        yield "sent itself again: no summary of history stands for it any more"


def _observed(messages: tuple[Message, ...], target: _Target, nodes: int) -> Iterator[str]:
    if nodes < target.cm <= nodes + len(messages):
        call = messages[target.cm - nodes - 1].parts[target.cp]
        if isinstance(call, Call):
            yield f"its call was observed: {call.name} ({call.id}), part {target.cp} of message {target.cm}"
    if nodes < target.m <= nodes + len(messages):
        message = messages[target.m - nodes - 1]
        if target.p < len(message.parts):
            part = message.parts[target.p]
            kind = _KINDS.get(type(part).__name__, "part")
            yield (
                f"observed: a {kind} of {part.tokens:,} tokens, {part.size:,} bytes, "
                f"part {target.p} of message {target.m} ({message.role})"
            )


def _moved(state: State, event: ev.HeadMoved | ev.SessionForked, target: _Target, here: bool) -> Iterator[str]:
    now = target.m in state.pos
    if isinstance(event, ev.SessionForked):
        parent = event.parent.removeprefix("session/")
        yield f"inherited: this session was forked from {parent} at version {event.version}"
        if not now:
            yield "left behind: the fork begins before its message"
    elif here and not now:
        yield f"off the path: the host's history went on without its message ({event.cause})"
    elif now and not here:
        yield f"on the path again ({event.cause})"


def _passed(state: State, event: ev.Pass, target: _Target, before: _Before) -> Iterator[str]:
    queued = before.queued
    where = f"pass {event.number} ({level(event)})"
    for arrival in event.arrivals:
        if _holds(arrival, target):
            number = arrival.tags[target.p - arrival.first]
            shown = "" if number > 0 else ", the number not shown"
            yield f"numbered §{abs(number)}§ and first sent by {where}{shown}" if number else f"first sent by {where}"
            yield from (f"{where}: {said}" for edit in arrival.edits if (said := edit_text(edit, target.m, target.p)))
    if isinstance(event, ev.PassDeferred):
        would = _planned(event.decision, target.tag)
        if would and not queued:
            yield f"passes that could not rebuild would have taken it out: {LANES.get(would, would)}"
        if queued and event.decision is not None and event.decision.held:
            yield "held: passes that could have rebuilt left queued work where it was"
        return
    modes = dict(event.landed)
    if target.tag in modes:
        by = _lane(event, target.tag, queued)
        yield f"{by} {where}, {_because(event)}: {_MODES.get(modes[target.tag], modes[target.tag])}"
    elif queued:
        yield "stayed queued through a rebuild: protected as recent, still open, or before the rebuild's reach"
    for edit in event.edits:
        said = edit_text(edit, target.m, target.p)
        if said:
            yield f"{where}: {said}"
        elif target.cm and (said := edit_text(edit, target.cm, target.cp)):
            yield f"{where}, its call: {said}"
    yield from (f"{where}: {insert_text(insert)}" for insert in event.inserts if _says(state, insert, target))
    if _covered(state, target) and not before.covered:
        yield f"covered by a summary of history since {where}"


_MODES = {
    "placeholder": "a placeholder stands in its place",
    "skeleton_real": "its call keeps the real arguments, a placeholder stands in its place",
    "skeleton_stripped": "its call keeps the real arguments, a placeholder stands in its place, its media are gone",
    "full": "it left the request together with its call",
    "edit_marker": "its call keeps a hint of its arguments, a placeholder stands in its place",
    "edit_marker_stripped": "its call keeps a hint of its arguments, a placeholder stands in its place",
    "inline": "it is sent without the reasoning written into it",
    "terse1": "it is sent in fewer words",
    "terse2": "it is sent in fewer words, without articles",
    "terse3": "it is sent in few words and signs",
}
LANES = {
    "emergency": "the window was nearly full",
    "injected": "it held nothing but what programs had put into it",
    "dedup": "a newer look shows the same",
    "mended": "its host went on right behind it",
    "inline": "the budget of reasoning keeps newer steps",
    "terse": "old texts are sent in fewer words",
    "age": "an earlier rebuild had shown it",
    "smart": "a later call made it pointless",
    "stale_reduce": "it only marked what was spent",
    "images": "the model had seen it, and newer things had left",
    "pictures": "the provider refused so many or such large pictures",
}
"""Why a lane takes out what nobody marked, in words."""


def _planned(decision: ev.Decision | None, tag: int) -> str:
    lanes = decision.lanes if decision is not None else ()
    return next((did.lane for did in lanes if any(first <= tag <= last for first, last in did.tags)), "")


def _lane(event: ev.Rebuild, tag: int, queued: bool) -> str:
    lane = _planned(event.decision, tag)
    return "landed in" if queued or lane not in LANES else f"taken out ({LANES[lane]}) by"


def _because(event: ev.Rebuild) -> str:
    found = event.reasons if isinstance(event, ev.BaselineFolded) else ()
    said = [*found, *(signal for signal in event.decision.signals if signal not in found)]
    return "because of " + ", ".join(said) if said else "with permission"


def _holds(arrival: Arrival, target: _Target) -> bool:
    return arrival.m == target.m and arrival.first <= target.p < arrival.first + len(arrival.tags)


def _says(state: State, insert: Insert, target: _Target) -> bool:
    """Whether an arc of ours says again what this part's call said: the newest list does."""
    if insert.kind != "arc" or not is_ours(insert.id):
        return False
    newest = todo.newest(Scene(state, Observation(keep=len(state.path))))
    return newest is not None and newest.result == (target.m, target.p)


def insert_text(insert: Insert) -> str:
    """Return in words what happens to a unit of ours between the messages."""
    if insert.kind == "none":
        return f"what stood behind message {insert.m} as {insert.id} is taken away"
    said = "its to-do list is said again" if is_ours(insert.id) else "a message of ours stands"
    return f"{said} behind message {insert.m}, as {insert.id}"


def edit_text(edit: Edit, m: int, p: int) -> str:
    """Return in words what ``edit`` does to part ``p`` of message ``m``; empty where it concerns another."""
    if edit.m != m or getattr(edit, "p", p) != p:
        return ""
    if isinstance(edit, SetBody):
        return f"body = {edit.kind}" + (f" ({edit.text.hex()[:12]})" if edit.text else "")
    if isinstance(edit, SetTag):
        return f"tag = {edit.tag}"
    if isinstance(edit, SetText):
        side = "before" if edit.slot == "pre" else "behind"
        said = "silence" if edit.kind == "time" else edit.kind
        return f"said {side} it: a {said} ({edit.text.hex()[:12]})" if edit.text else f"no {said} {side} it any more"
    if isinstance(edit, SetMedia):
        return f"media = {edit.media}"
    if isinstance(edit, SetThink):
        return f"think = {edit.think}"
    if isinstance(edit, SetShape):
        return f"message = {edit.shape}"
    return f"trailing blanks kept = {edit.keep}"


def _collapsed(steps: Iterator[Step]) -> tuple[Step, ...]:
    """Join steps that say the same thing one behind the other."""
    found: list[Any] = []
    for step in steps:
        last = found[-1] if found else None
        if last is not None and (last.what, last.event) == (step.what, step.event):
            found[-1] = msgspec.structs.replace(last, times=last.times + 1, until=step.number)
        else:
            found.append(step)
    return tuple(found)

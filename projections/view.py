"""The view: what the log says the model sees of each message (``design.md`` 4, ``specs/view.md``).

A fold of the events, second guard of law 3: it keeps how much of every message was rendered and raises where an event
edits outside its level's reach. It holds no text, only digests, and reads nothing but events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..domain import events as ev
from ..domain.edits import (
    TEXT_ORDER,
    Arrival,
    Edit,
    Insert,
    MessageSlots,
    PartSlots,
    SetBody,
    SetMedia,
    SetShape,
    SetTag,
    SetText,
    SetThink,
    SetTrail,
)
from ..domain.errors import LawBroken

_PLAIN = PartSlots()
_KEPT = MessageSlots()


class View(msgspec.Struct, array_like=True):
    """The present view. ``shown[m]``: parts of message ``m`` that a request held. ``inserts[m]``: units behind it.

    Most messages hold nothing but numbers: ``plain[m]`` are those of its parts; ``slots[m]`` is kept for all others.
    """

    wire: int = 0
    codec: str = ""
    system: bytes = b""
    tools: bytes = b""
    guidance: bytes = b""
    m0: tuple[bytes, ...] = ()
    m1: tuple[bytes, ...] = ()
    cut: int = 0
    plain: dict[int, tuple[int, ...]] = msgspec.field(default_factory=dict)
    slots: dict[int, MessageSlots] = msgspec.field(default_factory=dict)
    shown: dict[int, int] = msgspec.field(default_factory=dict)
    hidden: dict[int, tuple[int, ...]] = msgspec.field(default_factory=dict)
    anchors: dict[str, int] = msgspec.field(default_factory=dict)
    inserts: dict[int, tuple[Insert, ...]] = msgspec.field(default_factory=dict)

    def of(self, m: int) -> MessageSlots:
        """Return the slots of message ``m``."""
        found = self.slots.get(m)
        if found is not None:
            return found
        numbers = self.plain.get(m)
        return _KEPT if numbers is None else _numbered(numbers)


class Change(msgspec.Struct, frozen=True):
    """What one pass event does to the view: new slots by message (numbers alone in ``plain``), new counts.

    ``revealed``: messages that went out raw and show their numbers from this pass on (LAST-3).
    """

    plain: dict[int, tuple[int, ...]]
    slots: dict[int, MessageSlots]
    shown: dict[int, int]
    revealed: list[int] = []

    def of(self, m: int, view: View) -> MessageSlots:
        """Return the slots message ``m`` will have."""
        if m in self.slots:
            return self.slots[m]
        return _numbered(self.plain[m]) if m in self.plain else view.of(m)


def preview(view: View, event: ev.Pass, resets: dict[int, int], place: Mapping[int, int] | None = None) -> Change:
    """Return what ``event`` would change, without changing ``view``. Raises ``LawBroken`` outside the level's reach.

    ``resets`` maps messages revised in the same transaction to their first changed part. ``place`` gives path indexes
    where the reach of a rebuild has to be checked; what went out raw shows its numbers only behind that reach.
    """
    change = Change({}, {}, {})
    for m, first in resets.items():
        change.slots[m] = _cut(view.of(m), first)
        change.shown[m] = min(view.shown.get(m, 0), first)
    for arrival in event.arrivals:
        _arrive(view, change, arrival)
    for insert in event.inserts:
        deferred = isinstance(event, ev.PassDeferred)
        if deferred and (insert.m not in change.shown or insert.id in view.anchors or insert.kind == "none"):
            raise LawBroken("an insert before the last part a request held", value=insert, where=f"pass {event.number}")
    if not isinstance(event, ev.PassDeferred):
        _rebuild(view, change, event, place)
    return change


def _rebuild(view: View, change: Change, event: ev.Rebuild, place: Mapping[int, int] | None) -> None:
    reach = event.decision.reach
    for m, parts in view.hidden.items():
        if place is None or place.get(m, -1) >= reach:
            if m in change.slots or (m not in change.plain and m in view.slots):
                change.slots[m] = _reveal(change.of(m, view), parts)
            else:  # a first fold shows the numbers of thousands at once: no slots are made of those that hold no more
                numbers = change.plain.get(m, view.plain.get(m, ()))
                change.plain[m] = tuple([abs(n) if p in parts else n for p, n in enumerate(numbers)])
            change.revealed.append(m)
    for edit in event.edits:
        # what is off the path is in no request until the head comes back to it
        if place is not None and 0 <= place.get(edit.m, -1) < reach:
            raise LawBroken("an edit before the reach of its permission", value=edit.m, where=f"pass {event.number}")
        if edit.m not in view.shown and edit.m not in change.shown:
            raise LawBroken("an edit of a message no request holds", value=edit.m, where=f"pass {event.number}")
        change.slots[edit.m] = apply_edit(change.of(edit.m, view), edit)
    for insert in event.inserts:
        there = -1 if place is None else place.get(insert.m, -1)
        early = place is not None and there < reach and (there >= 0 or insert.kind != "none")
        unseen = insert.m not in view.shown and insert.m not in change.shown
        if early or unseen:
            raise LawBroken("an insert before the reach of its permission, or behind nothing", value=insert.m)


def evolve(view: View, event: ev.Event, place: Mapping[int, int] | None = None) -> None:
    """Take one stored event into the view. ``place``: path indexes, to hold a rebuild to its reach."""
    handler = _HANDLERS.get(type(event))
    if handler is not None:
        handler(view, event)
    elif isinstance(event, _PASSES):
        take(view, event, preview(view, event, {}, place))


_PASSES = (ev.PassDeferred, ev.ConversationRebuilt, ev.HistoryRefreshed, ev.BaselineFolded)


def take(view: View, event: ev.Pass, change: Change) -> None:
    """Make a previewed change the view's own."""
    for m, numbers in change.plain.items():
        view.plain[m] = numbers
        view.slots.pop(m, None)
    view.slots.update(change.slots)
    view.shown.update(change.shown)
    for insert in event.inserts:
        view.inserts.update(placed(view, (insert,)))
        view.anchors[insert.id] = insert.m
    if isinstance(event, ev.PassDeferred):
        return
    for m in change.revealed:
        view.hidden.pop(m, None)
    if not isinstance(event, ev.ConversationRebuilt):
        view.m1, view.cut = event.m1, event.cut
    if isinstance(event, ev.BaselineFolded):
        view.m0, view.guidance, view.wire = event.m0, event.guidance, event.wire


def _opened(view: View, event: ev.SessionOpened) -> None:
    view.codec, view.wire = event.codec, event.wire


def _system(view: View, event: ev.SystemChanged) -> None:
    view.system = event.body


def _tools(view: View, event: ev.ToolsChanged) -> None:
    view.tools = event.body


def _revised(view: View, event: ev.PartsRevised) -> None:
    view.slots[event.m] = _cut(view.of(event.m), event.first)
    view.shown[event.m] = min(view.shown.get(event.m, 0), event.first)


def placed(view: View, inserts: tuple[Insert, ...]) -> dict[int, tuple[Insert, ...]]:
    """Return the units of every message that ``inserts`` touch: a unit of a known id moves, or goes."""
    found: dict[int, tuple[Insert, ...]] = {}
    for insert in inserts:
        old = view.anchors.get(insert.id, 0)
        for m in {old, insert.m} - {0}:
            found[m] = tuple(one for one in found.get(m, view.inserts.get(m, ())) if one.id != insert.id)
        if insert.kind != "none":
            found[insert.m] = (*found[insert.m], insert)
    return found


def apply_edit(slots: MessageSlots, edit: Edit) -> MessageSlots:
    """Return ``slots`` with one edit: the slot it names takes the new value, all others stay."""
    replace = msgspec.structs.replace
    if isinstance(edit, SetShape):
        return replace(slots, shape=edit.shape, text=edit.text)
    if isinstance(edit, SetTrail):
        return replace(slots, trail=edit.keep)
    part = slots.parts[edit.p] if edit.p < len(slots.parts) else _PLAIN
    if isinstance(edit, SetTag):
        part = replace(part, tag=edit.tag)
    elif isinstance(edit, SetBody):
        part = replace(part, body=edit.kind, text=edit.text)
    elif isinstance(edit, SetMedia):
        part = replace(part, media=edit.media)
    elif isinstance(edit, SetThink):
        part = replace(part, think=edit.think)
    else:
        part = _with_text(part, edit)
    return _with_part(slots, edit.p, part)


def _with_text(part: PartSlots, edit: SetText) -> PartSlots:
    old = part.pre if edit.slot == "pre" else part.post
    texts = {**dict(old), edit.kind: edit.text}
    ordered = tuple((kind, texts[kind]) for kind in TEXT_ORDER if texts.get(kind))
    return msgspec.structs.replace(part, **{edit.slot: ordered})


def _with_part(slots: MessageSlots, p: int, part: PartSlots) -> MessageSlots:
    padded = slots.parts + (_PLAIN,) * (p + 1 - len(slots.parts))
    return msgspec.structs.replace(slots, parts=(*padded[:p], part, *padded[p + 1 :]))


def _arrive(view: View, change: Change, arrival: Arrival) -> None:
    m, first = arrival.m, arrival.first
    held = change.shown.get(m, view.shown.get(m, 0))
    if first < held:
        raise LawBroken(f"an arrival shows part {first} of message {m} a second time", value=held)
    change.shown[m] = first + len(arrival.tags)
    if not first and not arrival.edits:
        change.slots.pop(m, None)
        change.plain[m] = arrival.tags
        return
    change.slots[m] = _with_arrival(change.of(m, view), arrival)


def _numbered(numbers: tuple[int, ...]) -> MessageSlots:
    return MessageSlots(tuple([PartSlots(tag=number) if number else _PLAIN for number in numbers]))


def _with_arrival(slots: MessageSlots, arrival: Arrival) -> MessageSlots:
    kept = slots.parts[: arrival.first]
    kept += (_PLAIN,) * (arrival.first - len(kept))
    fresh = _numbered(arrival.tags).parts
    result = msgspec.structs.replace(slots, parts=kept + fresh) if arrival.first else MessageSlots(fresh)
    for edit in arrival.edits:
        if edit.m != arrival.m or getattr(edit, "p", 0) < arrival.first:  # a shape edit is one of part 0
            raise LawBroken("an arrival edits what is not its own", value=edit)
        result = apply_edit(result, edit)
    return result


def _cut(slots: MessageSlots, first: int) -> MessageSlots:
    """Return the slots with the parts from ``first`` on as if never edited: a new revision carries no old edit."""
    return MessageSlots() if first == 0 else MessageSlots(slots.parts[:first], trail=slots.trail)


def _reveal(slots: MessageSlots, hidden: tuple[int, ...]) -> MessageSlots:
    replace = msgspec.structs.replace
    parts = [replace(part, tag=abs(part.tag)) if p in hidden else part for p, part in enumerate(slots.parts)]
    return replace(slots, parts=tuple(parts))


def _replayed(view: View, event: ev.LastGoodReplayed) -> None:
    for arrival in event.arrivals:
        concealed = tuple(-abs(number) for number in arrival.tags)
        if arrival.first:
            raw = msgspec.structs.replace(arrival, tags=concealed, edits=())
            view.slots[arrival.m] = _with_arrival(view.of(arrival.m), raw)
        else:
            view.slots.pop(arrival.m, None)
            view.plain[arrival.m] = concealed
        view.shown[arrival.m] = arrival.first + len(arrival.tags)
        waiting = tuple(arrival.first + p for p, number in enumerate(arrival.tags) if number > 0)
        if waiting:
            view.hidden[arrival.m] = view.hidden.get(arrival.m, ()) + waiting


_HANDLERS: dict[type, Any] = {
    ev.SessionOpened: _opened,
    ev.SystemChanged: _system,
    ev.ToolsChanged: _tools,
    ev.PartsRevised: _revised,
    ev.LastGoodReplayed: _replayed,
}

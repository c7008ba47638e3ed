"""Apply a message's slots to OpenCode's raw message: splices, as ``render`` does for hosts with content blocks."""

from __future__ import annotations

from collections.abc import Callable

from ....domain.edits import MessageSlots, PartSlots
from . import forms, spans
from .draft import PLAIN, Chunk, Draft, affix, chunk_text, dropped, idle, need, put, wrap
from .echo import echo_length, own_length
from .opencode import DONE, layout, output_of
from .opencode_reading import DEEP
from .unit import Unit

_REMOVES = {
    "text": ("absent",),
    "result": ("absent", "empty"),
    "call": ("absent", "empty"),
    "media": ("absent", "empty"),
    "thinking": ("absent", "empty"),
    "other": (),
}


def render(raw: bytes, slots: MessageSlots, text: Chunk) -> bytes | None:
    """Return the message as the host is to convert it, or None where nothing of it reaches the model.

    All other members of the host's objects stay. Raises ``MessageError`` for raw bytes that are no message.
    """
    if slots.shape == "absent":
        return None
    if slots.shape == "keep" and slots.trail < 0 and all(idle(slot) for slot in slots.parts):
        return raw
    seen = layout(forms.decode_again(raw), "message")
    draft = Draft("opencode", raw, seen, text, spans.scan(raw, deep=DEEP), spans.start(raw))
    if slots.shape == "shell":
        words = chunk_text(draft, slots.text)
        if not words and seen.role == "user":
            return None  # the host sends no empty text of a person: nothing of the message would reach the model
        draft.edits.append((*need(draft, draft.top, "parts"), b"[" + text_part(words) + b"]"))
        return spans.splice(raw, draft.edits)
    for p, unit in enumerate(seen.units):
        slot = slots.parts[p] if p < len(slots.parts) else PLAIN
        if unit.kind == "call" and unit.value["state"].get("status") not in DONE:
            continue  # an open call is never touched
        if slot.body in _REMOVES[unit.kind]:
            draft.gone.add(unit.index)  # of a tool part both halves, whichever was named: there is no half of it
        elif not idle(slot):
            _EDITORS[unit.kind](draft, unit, slot)
    if slots.trail >= 0 and seen.role == "assistant":
        _cut_trail(draft, slots.trail)
    if draft.gone:
        if not _meaningful(draft, slots):
            return None
        _remove(draft)
    return spans.splice(raw, draft.edits) if draft.edits else raw


def text_part(text: str) -> bytes:
    """Return a text part of ours."""
    return b'{"type":"text","text":' + forms.quote(text) + b',"synthetic":true}'


def _parts(draft: Draft) -> list[spans.Span]:
    return draft.tree.arrays[need(draft, draft.top, "parts")[0]]


def _edit_text(draft: Draft, unit: Unit, slot: PartSlots) -> None:
    at = need(draft, _parts(draft)[unit.index][0], "text")
    if slot.body == "empty":
        draft.edits.append((*at, b'""'))
    else:
        _write(draft, at, unit.value["text"], slot, echo_length)


def _edit_thinking(draft: Draft, unit: Unit, slot: PartSlots) -> None:
    if slot.think == "absent":
        draft.gone.add(unit.index)


def _edit_media(draft: Draft, unit: Unit, slot: PartSlots) -> None:
    begin, end = _parts(draft)[unit.index]
    if slot.body in ("placeholder", "text"):
        draft.edits.append((begin, end, text_part(_whole(draft, slot, own_length))))
    elif slot.media == "strip":
        draft.gone.add(unit.index)
    else:
        before, after = wrap(draft, slot, True)
        if before.strip():
            draft.edits.append((begin, begin, text_part(before) + b","))
        if after.strip():
            draft.edits.append((end, end, b"," + text_part(after)))


def _edit_result(draft: Draft, unit: Unit, slot: PartSlots) -> None:
    out = output_of(unit.value)
    if not out.key:
        return  # the host's own words stand there, whatever the part holds
    state = need(draft, _parts(draft)[unit.index][0], "state")[0]
    strip = bool(out.attachments) and slot.media == "strip"
    if strip:
        put(draft, state, "attachments", b"[]")
    holder = need(draft, state, "metadata")[0] if out.key == "metadata" else state
    key = "output" if out.key == "metadata" else out.key
    at = draft.tree.value(holder, key)
    if strip and not out.text and slot.body == "raw":
        put(draft, holder, key, forms.quote(dropped(slot.tag) if slot.tag else ""))
    elif at is not None:
        _write(draft, at, out.text, slot, own_length)
    elif slot.body in ("placeholder", "text"):
        put(draft, holder, key, forms.quote(_whole(draft, slot, own_length)))
    else:
        put(draft, holder, key, forms.quote("".join(wrap(draft, slot, True))))


def _edit_nothing(draft: Draft, unit: Unit, slot: PartSlots) -> None:
    """Nothing: a call keeps its real arguments, other parts are never edited."""


def _edit_call(draft: Draft, unit: Unit, slot: PartSlots) -> None:
    if slot.body != "marker":
        return
    marker = chunk_text(draft, slot.text)
    forms.decode(marker.encode())  # a marker that is no JSON would break the whole message
    put(draft, need(draft, _parts(draft)[unit.index][0], "state")[0], "input", marker.encode())


_EDITORS: dict[str, Callable[[Draft, Unit, PartSlots], None]] = {
    "text": _edit_text,
    "call": _edit_call,
    "result": _edit_result,
    "thinking": _edit_thinking,
    "media": _edit_media,
    "other": _edit_nothing,
}


def _whole(draft: Draft, slot: PartSlots, stripped: Callable[[str], int]) -> str:
    """Return the text that stands in place of a part (``placeholder``, ``text``)."""
    if slot.body == "placeholder":
        return dropped(slot.tag)
    body = chunk_text(draft, slot.text)
    if slot.tag > 0:
        body = body[stripped(body) :]
    before, after = wrap(draft, slot, not body)
    return before + body + after


def _write(draft: Draft, at: spans.Span, value: str, slot: PartSlots, stripped: Callable[[str], int]) -> None:
    """Write the string at ``at``, which holds ``value``, as the slot says."""
    if slot.body in ("placeholder", "text"):
        draft.edits.append((*at, forms.quote(_whole(draft, slot, stripped))))
        return
    own = stripped(value) if slot.tag > 0 else 0
    before, after = wrap(draft, slot, own == len(value))
    affix(draft, at, own, before, after)


# ------------------------------------------------------------------- the whole message


def _blank(unit: Unit) -> bool:
    return unit.kind == "text" and (not unit.value["text"] or unit.value["text"].isspace())


def _cut_trail(draft: Draft, keep: int) -> None:
    """Take away the blank texts at the end but the first ``keep``; what the host never sends does not count."""
    units = draft.seen.units
    first = len(units)
    while first and _blank(units[first - 1]):
        first -= 1
    draft.gone.update(unit.index for unit in units[first + keep :])


def _meaningful(draft: Draft, slots: MessageSlots) -> bool:
    """Return whether anything is left but reasoning, splitters and untouched blank text."""
    for p, unit in enumerate(draft.seen.units):
        if unit.index in draft.gone or unit.kind == "thinking" or unit.value["type"] == "step-start":
            continue
        slot = slots.parts[p] if p < len(slots.parts) else PLAIN
        if not _blank(unit) or slot.body != "raw" or slot.pre or slot.post:
            return True
    return False


def _remove(draft: Draft) -> None:
    places = _parts(draft)
    gone = [places[index] for index in draft.gone]
    draft.edits = [edit for edit in draft.edits if not any(b <= edit[0] and edit[1] <= e for b, e in gone)]
    draft.edits.extend(spans.removals(places, draft.gone))

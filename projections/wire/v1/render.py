"""Apply a message's slots to its raw bytes (``specs/view.md``): splices only, so what no slot names keeps its bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....domain.edits import MessageSlots, PartSlots
from . import forms, opencode_render, responses, spans
from .draft import PLAIN, Chunk, Draft, affix, chunk_text, dropped, idle, need, put, text_block, wrap
from .echo import echo_length, own_length
from .unit import Unit
from .units import MEDIA, layout, output_blocks

CLEARED = "[cleared]"
_REMOVES = {
    "text": ("absent",),
    "result": ("absent", "empty"),
    "call": ("absent", "empty"),
    "media": ("absent", "empty"),
    "thinking": ("absent", "empty"),
    "other": (),
}


def render(codec: str, raw: bytes, slots: MessageSlots, text: Chunk) -> bytes | None:
    """Return the message as it is sent, or None where nothing of it is left.

    ``text`` returns the bytes of a chunk by digest. Cache marks of content blocks are always taken out; with default
    slots and no marks the result is ``raw`` itself. Raises ``MessageError`` for raw bytes that are no message.
    """
    if codec == "opencode":
        return opencode_render.render(raw, slots, text)
    if slots.shape == "absent":
        return None
    if b"cache_control" in raw:
        raw = unmarked_message(raw)
    if slots.shape == "keep" and slots.trail < 0 and all(idle(s) for s in slots.parts):
        return raw
    seen = layout(codec, forms.decode_again(raw), "message")
    tree = spans.scan(raw, deep=responses.DEEP) if codec == responses.CODEC else spans.scan(raw)
    draft = Draft(codec, raw, seen, text, tree, spans.start(raw))
    if slots.shape == "shell":
        return _shell(draft, chunk_text(draft, slots.text))
    for p, unit in enumerate(seen.units):
        slot = slots.parts[p] if p < len(slots.parts) else PLAIN
        if slot.body in _REMOVES[unit.kind]:
            draft.gone.add(p)
        elif not idle(slot):
            _EDITORS[unit.kind](draft, p, unit, slot)
    if slots.trail >= 0 and seen.role == "assistant":
        _cut_trail(draft, slots.trail)
    if draft.gone:
        if not _meaningful(draft, slots):
            return None
        _remove(draft)
    return spans.splice(raw, draft.edits) if draft.edits else raw


def _list(draft: Draft, key: str) -> list[spans.Span]:
    return draft.tree.arrays.get(need(draft, draft.top, key)[0], [])


def _item(draft: Draft, unit: Unit) -> spans.Span:
    return _list(draft, "tool_calls" if unit.at == "call" else "content")[unit.index]


def _holder(draft: Draft, unit: Unit) -> int:
    """Return the offset of the object that holds the unit's own members."""
    return _item(draft, unit)[0] if unit.at in ("item", "call") else draft.top


def _block(draft: Draft, text: str) -> bytes:
    """Return a text block of ours, as the message's kind of blocks is called."""
    return responses.text_block(draft.seen.role, text) if draft.codec == responses.CODEC else text_block(text)


# --------------------------------------------------------------------------- per kind


def _edit_text(draft: Draft, p: int, unit: Unit, slot: PartSlots) -> None:
    key = "content" if unit.at == "string" else "text"
    at = need(draft, _holder(draft, unit), key)
    if slot.body == "placeholder":
        draft.edits.append((*at, forms.quote(dropped(slot.tag))))
    elif slot.body == "empty":
        draft.edits.append((*at, b'""'))
    elif slot.body == "text":
        body = chunk_text(draft, slot.text)
        if slot.tag > 0:
            body = body[echo_length(body) :]
        before, after = wrap(draft, slot, not body)
        draft.edits.append((*at, forms.quote(before + body + after)))
    else:
        value = unit.value if unit.at == "string" else unit.value["text"]
        stripped = echo_length(value) if slot.tag > 0 else 0
        before, after = wrap(draft, slot, len(value) == stripped)
        affix(draft, at, stripped, before, after)


def _edit_call(draft: Draft, p: int, unit: Unit, slot: PartSlots) -> None:
    if slot.body != "marker":
        return
    marker = chunk_text(draft, slot.text)
    forms.decode(marker.encode())  # a marker that is no JSON would break the whole message
    holder = _holder(draft, unit)
    if draft.codec == responses.CODEC:
        given = responses.arguments(unit.value)
        put(draft, holder, responses.CALLS[unit.value["type"]][1], _argued(given, marker))
    elif draft.codec == "openai-chat":
        custom = unit.value.get("type") == "custom"
        function = need(draft, holder, "custom" if custom else "function")
        put(draft, function[0], "input" if custom else "arguments", forms.quote(marker))
    else:
        put(draft, holder, "input" if draft.codec == "anthropic" else "arguments", marker.encode())


def _argued(given: Any, marker: str) -> bytes:
    return forms.quote(marker) if isinstance(given, str) or given is None else marker.encode()


def _edit_thinking(draft: Draft, p: int, unit: Unit, slot: PartSlots) -> None:
    if slot.think == "absent":
        draft.gone.add(p)
    elif slot.think == "cleared" and draft.codec == "anthropic":
        at = draft.tree.value(_holder(draft, unit), "thinking")
        if at is not None and unit.value.get("thinking"):
            draft.edits.append((*at, forms.quote(CLEARED)))


def _edit_media(draft: Draft, p: int, unit: Unit, slot: PartSlots) -> None:
    begin, end = _item(draft, unit)
    if slot.body == "placeholder":
        draft.edits.append((begin, end, _block(draft, dropped(slot.tag))))
    elif slot.body == "text":
        body = chunk_text(draft, slot.text)
        if slot.tag > 0:
            body = body[own_length(body) :]
        before, after = wrap(draft, slot, not body)
        draft.edits.append((begin, end, _block(draft, before + body + after)))
    elif slot.media == "strip":
        draft.gone.add(p)
    else:
        before, after = wrap(draft, slot, True)
        if before.strip():
            draft.edits.append((begin, begin, _block(draft, before) + b","))
        if after.strip():
            draft.edits.append((end, end, b"," + _block(draft, after)))


def _edit_result(draft: Draft, p: int, unit: Unit, slot: PartSlots) -> None:
    holder = _holder(draft, unit)
    content = output_blocks(unit, draft.codec)
    key = "content"
    if draft.codec == responses.CODEC:
        key = responses.OUTPUTS[unit.value["type"]]
        if unit.value["type"] not in responses.WRITTEN:
            _edit_unwritten(draft, unit, slot, holder, key)
            return
    at = draft.tree.value(holder, key)
    if slot.body in ("placeholder", "text"):
        if slot.body == "placeholder":
            whole = dropped(slot.tag)
        else:
            body = chunk_text(draft, slot.text)
            if slot.tag > 0:
                body = body[own_length(body) :]
            before, after = wrap(draft, slot, not body)
            whole = before + body + after
        kept = _media_inside(draft, content, at) if slot.media == "keep" else []
        put(draft, holder, key, _output(draft, whole, kept))
        return
    if isinstance(content, list) and content and at is not None:
        _edit_output(draft, slot, content, at)
        return
    before, after = wrap(draft, slot, not content)
    if isinstance(content, str) and at is not None and draft.codec != "pi":
        stripped = own_length(content) if slot.tag > 0 else 0
        if content and stripped == len(content):
            before, after = wrap(draft, slot, True)
        affix(draft, at, stripped, before, after)
    elif before or after:
        put(draft, holder, key, _output(draft, before + (content or "") + after, []))


def _edit_unwritten(draft: Draft, unit: Unit, slot: PartSlots, holder: int, key: str) -> None:
    """An output that is no text shows no tag; what replaces it has its own shape."""
    if slot.body == "text":
        out = responses.stand_in(unit.value, chunk_text(draft, slot.text))
    elif slot.body == "placeholder" or slot.media == "strip":
        out = responses.stand_in(unit.value, dropped(slot.tag), only_media=slot.body != "placeholder")
    else:
        return
    if out is not None:
        put(draft, holder, key, out)


def _output(draft: Draft, text: str, media: list[bytes]) -> bytes:
    """Return a tool's whole output: a string where the host's format has one and there are no media."""
    if media or draft.codec == "pi":
        texts = [_block(draft, text)] if text else []
        return b"[" + b",".join(texts + media) + b"]"
    return forms.quote(text)


def _media_inside(draft: Draft, content: Any, at: spans.Span | None) -> list[bytes]:
    if not isinstance(content, list) or at is None or not any(b["type"] in MEDIA for b in content):
        return []
    places = draft.tree.arrays[at[0]]
    return [draft.raw[b:e] for (b, e), block in zip(places, content, strict=True) if block["type"] in MEDIA]


def _edit_output(draft: Draft, slot: PartSlots, content: list[dict[str, Any]], at: spans.Span) -> None:
    places = draft.tree.arrays[at[0]]
    gone = {i for i, b in enumerate(content) if b["type"] in MEDIA} if slot.media == "strip" else set()
    if len(gone) == len(content):
        draft.edits.append((*at, _output(draft, dropped(slot.tag) if slot.tag else "", [])))
        return
    draft.edits.extend(spans.removals(places, gone))
    texts = [i for i, b in enumerate(content) if b["type"] == "text"]
    kept = [i for i in range(len(content)) if i not in gone]
    if not texts:
        before, after = wrap(draft, slot, True)
        if before.strip():
            draft.edits.append((places[kept[0]][0], places[kept[0]][0], _block(draft, before) + b","))
        if after.strip():
            draft.edits.append((places[kept[-1]][1], places[kept[-1]][1], b"," + _block(draft, after)))
        return
    first, last = texts[0], texts[-1]
    value = content[first]["text"]
    stripped = own_length(value) if slot.tag > 0 else 0
    before, after = wrap(draft, slot, stripped == len(value))
    affix(draft, _text_span(draft, places[first]), stripped, before, after if first == last else "")
    if first != last and after:
        affix(draft, _text_span(draft, places[last]), 0, "", after)


def _text_span(draft: Draft, place: spans.Span) -> spans.Span:
    return need(draft, place[0], "text")


def _edit_other(draft: Draft, p: int, unit: Unit, slot: PartSlots) -> None:
    """Nothing: other parts are never edited."""


_EDITORS: dict[str, Callable[[Draft, int, Unit, PartSlots], None]] = {
    "text": _edit_text,
    "call": _edit_call,
    "result": _edit_result,
    "thinking": _edit_thinking,
    "media": _edit_media,
    "other": _edit_other,
}


# ------------------------------------------------------------------- the whole message


def _blank(unit: Unit) -> bool:
    if unit.kind != "text":
        return False
    value = unit.value if unit.at == "string" else unit.value["text"]
    return not value or value.isspace()


def _cut_trail(draft: Draft, keep: int) -> None:
    units = draft.seen.units
    first = len(units)
    while first and _blank(units[first - 1]):
        first -= 1
    draft.gone.update(range(first + keep, len(units)))


def _meaningful(draft: Draft, slots: MessageSlots) -> bool:
    """Return whether anything is left but reasoning and untouched blank text."""
    for p, unit in enumerate(draft.seen.units):
        if p in draft.gone or unit.kind == "thinking":
            continue
        slot = slots.parts[p] if p < len(slots.parts) else PLAIN
        if not _blank(unit) or slot.body != "raw" or slot.pre or slot.post:
            return True
    return False


def _remove(draft: Draft) -> None:
    units = draft.seen.units
    inside = [p for p, u in enumerate(units) if u.at in ("item", "string")]
    if inside and draft.gone.issuperset(inside):
        # other parts stand outside the content, which only openai-chat has; its assistants may have none
        draft.edits = [e for e in draft.edits if not _within(e, need(draft, draft.top, "content"))]
        put(draft, draft.top, "content", b"null")
    elif inside and units[inside[0]].at == "item":
        _take(draft, "content", inside)
    keys = {units[p].key for p in draft.gone if units[p].at == "member"}
    calls = [p for p, u in enumerate(units) if u.at == "call"]
    if calls and draft.gone.issuperset(calls):
        keys.add("tool_calls")
    elif calls:
        _take(draft, "tool_calls", calls)
    _drop_members(draft, keys)


def _take(draft: Draft, key: str, parts: list[int]) -> None:
    gone = {draft.seen.units[p].index for p in parts if p in draft.gone}
    draft.edits.extend(spans.removals(_list(draft, key), gone))


def _within(edit: spans.Splice, at: spans.Span) -> bool:
    return at[0] <= edit[0] and edit[1] <= at[1]


def _drop_members(draft: Draft, keys: set[str]) -> None:
    if keys:
        own = draft.tree.objects[draft.top]
        draft.edits.extend(spans.removals([(m[1], m[3]) for m in own], {i for i, m in enumerate(own) if m[0] in keys}))


def _shell(draft: Draft, text: str) -> bytes:
    """Return the message with one text in place of all it held; ids that pair it stay."""
    if draft.codec == responses.CODEC and any(u.at == "message" for u in draft.seen.units):
        return _item_shell(draft, text)
    if draft.codec == "pi" and any(u.at == "message" and u.kind == "other" for u in draft.seen.units):
        stamp = draft.tree.value(draft.top, "timestamp")
        time = draft.raw[stamp[0] : stamp[1]] if stamp else b"0"
        return b'{"role":"user","content":[' + _block(draft, text) + b'],"timestamp":' + time + b"}"
    body = forms.quote(text) if draft.codec == "openai-chat" else b"[" + _block(draft, text) + b"]"
    put(draft, draft.top, "content", body)
    keys = {u.key for u in draft.seen.units if u.at == "member"}
    if draft.codec == "openai-chat":
        keys.add("tool_calls")
    _drop_members(draft, keys)
    return spans.splice(draft.raw, draft.edits)


def _item_shell(draft: Draft, text: str) -> bytes:
    """An output holds the text, reasoning becomes a message; a call and an unknown item have no place for one."""
    unit = draft.seen.units[0]
    if unit.kind == "thinking":
        return responses.text_item("assistant", text)
    if unit.kind == "result" and unit.value["type"] in responses.WRITTEN:
        put(draft, draft.top, "output", forms.quote(text))
    elif unit.kind == "result":
        out = responses.stand_in(unit.value, text)
        if out is not None:
            put(draft, draft.top, responses.OUTPUTS[unit.value["type"]], out)
    return spans.splice(draft.raw, draft.edits)


# ------------------------------------------------------------------------ cache marks


def unmarked_message(raw: bytes) -> bytes:
    """Return ``raw`` without the cache marks of its content blocks, also of those inside tool results."""
    tree = spans.scan(raw)
    content = tree.value(spans.start(raw), "content")
    return spans.splice(raw, _mark_splices(raw, tree, content[0], True)) if content else raw


def unmarked(raw: bytes) -> bytes:
    """Return a system or tool list (or a string) without the cache marks of its elements; ``b""`` stays."""
    if b"cache_control" not in raw:
        return raw
    return spans.splice(raw, _mark_splices(raw, spans.scan(raw, 2), spans.start(raw), False))


def _mark_splices(raw: bytes, tree: spans.Tree, pos: int, results: bool) -> list[spans.Splice]:
    out: list[spans.Splice] = []
    for begin, _end in tree.arrays.get(pos, ()):
        found = tree.objects.get(begin, [])
        gone = {i for i, m in enumerate(found) if m[0] == forms.MARK}
        if gone:
            out.extend(spans.removals([(m[1], m[3]) for m in found], gone))
        kind = spans.member(found, "type") if results else None
        if kind is not None and forms.decode(raw[kind[0] : kind[1]]) == "tool_result":
            for name, _, value, _ in found:
                if name == "content":
                    out.extend(_mark_splices(raw, tree, value, False))
    return out

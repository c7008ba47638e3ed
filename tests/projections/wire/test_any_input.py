"""Whatever a host hands over and whatever the view says: a foldlog error, or a message that can be read again."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from foldlog.domain.edits import MessageSlots, PartSlots
from foldlog.domain.errors import FoldlogError
from foldlog.projections.wire import v1
from support.any_messages import CHUNKS, message_slots, messages

NOTHING = next(digest for digest, text in CHUNKS.items() if not text)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(messages(), message_slots)
@example(
    ("opencode", b'{"info": {"role": "user", "id": "m"}, "parts": [{"type": "text", "text": "hi"}]}'),
    MessageSlots(shape="shell", text=NOTHING),
)
def test_any_slots_give_a_message_or_none(given_: tuple[str, bytes], slots: MessageSlots) -> None:
    """VIEW-13, VIEW-14, VIEW-15, JSON-5: every value of the grammar applies to every message, twice alike."""
    codec, raw = given_
    before = v1.read(codec, raw, len)
    out = v1.render(codec, raw, slots, CHUNKS.__getitem__)
    assert out == v1.render(codec, raw, slots, CHUNKS.__getitem__)
    if slots.shape == "absent":
        assert out is None
    if out is None:
        return
    after = v1.read(codec, out, len)
    assert after.message.role == before.message.role
    assert b'"cache_control"' not in out
    assert len(v1.blocks(codec, out)) == max(1, len(after.message.parts))
    if slots.shape == "shell":
        assert len(after.message.parts) == 1
        return
    for p, unit in enumerate(before.message.parts):
        slot = slots.parts[p] if p < len(slots.parts) else PartSlots()
        if slot == PartSlots() and slots.trail < 0 and codec == "anthropic":
            assert before.part_idents[p] in after.part_idents, (p, unit)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(messages(), st.data())
def test_damaged_bytes_are_refused_in_our_own_words(given_: tuple[str, bytes], data: st.DataObject) -> None:
    """JSON-4: nothing but a foldlog error leaves the wire, whatever the bytes."""
    codec, raw = given_
    at = data.draw(st.integers(0, len(raw)))
    to = data.draw(st.integers(at, min(len(raw), at + 4)))
    damaged = raw[:at] + data.draw(st.binary(max_size=3)) + raw[to:]
    try:
        read = v1.read(codec, damaged, len)
    except FoldlogError:
        read = None
    try:
        v1.render(codec, damaged, MessageSlots(parts=(PartSlots(tag=1),) * 4), CHUNKS.__getitem__)
    except FoldlogError:
        assert read is None
    for call in (v1.system_hash, v1.tools_blocks, v1.tools_names_hash, v1.system_blocks):
        try:
            call(codec, damaged)
        except FoldlogError:
            pass
    try:
        v1.with_guidance(codec, damaged, "G")
        v1.split_system(codec, [damaged])
        v1.unmarked(damaged)
    except FoldlogError:
        pass


@given(st.binary(max_size=60))
def test_any_bytes(raw: bytes) -> None:
    """JSON-4."""
    for codec in v1.CODECS:
        try:
            v1.read(codec, raw, len)
        except FoldlogError:
            continue
        json.loads(raw)

"""Chunks come back byte for byte, in whatever form they were stored (convention 3)."""

from __future__ import annotations

import base64
import os
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldlog.domain.errors import StoreDamaged, StoreUnavailable
from foldlog.storage import content, dictionary, packing
from foldlog.storage.dictionary import load_dictionary
from foldlog.storage.memory import MemoryBackend
from foldlog.storage.store import Store
from support.events import chunk, note

S = "session/api/one"


def fresh() -> tuple[Store, MemoryBackend]:
    backend = MemoryBackend()
    return Store(backend), backend


def kind(backend: MemoryBackend, data: bytes) -> int:
    return backend.bodies[sha256(data).digest()][0]


@st.composite
def cut(draw: st.DrawFn) -> tuple[bytes, tuple[tuple[int, int], ...]]:
    """Return bytes with attachment spans in them, some base64, some not."""
    pieces = draw(st.lists(st.tuples(st.binary(max_size=60), st.binary(max_size=300), st.integers(0, 2)), max_size=4))
    data, spans = b"", []
    for text, media, form in pieces:
        data += text
        body = (media, base64.b64encode(media), media * 3)[form]
        spans.append((len(data), len(data) + len(body)))
        data += body
    return data + draw(st.binary(max_size=60)), tuple(spans)


@settings(max_examples=60, deadline=None)
@given(cut())
def test_splice_round_trip(sample: tuple[bytes, tuple[tuple[int, int], ...]]) -> None:
    data, spans = sample
    store, backend = fresh()
    store.append(S, 0, [note(1)], [chunk(data, attachments=spans)])
    assert store.chunks([sha256(data).digest()]) == [data]
    for start, stop in spans:
        if stop - start >= packing.SMALL and kind(backend, data) == packing.SPLICE:
            assert store.chunks([sha256(data[start:stop]).digest()]) == [data[start:stop]]
    assert store.verify().faults == ()


@settings(max_examples=60, deadline=None)
@given(cut(), st.binary(max_size=80), st.integers(0, 400), st.integers(0, 400))
def test_delta_round_trip(
    sample: tuple[bytes, tuple[tuple[int, int], ...]], middle: bytes, start: int, length: int
) -> None:
    old, spans = sample
    old = b"a beginning that stays as it is " * 6 + old
    spans = tuple((a + 192, b + 192) for a, b in spans)
    new = old[:start] + middle + old[start + length :]
    kept = tuple(span for span in spans if span[1] <= start)
    store, _ = fresh()
    store.append(S, 0, [note(1)], [chunk(old, attachments=spans)])
    store.append(S, 1, [note(2)], [chunk(new, attachments=kept, base=sha256(old).digest())])
    assert store.chunks([sha256(new).digest(), sha256(old).digest()]) == [new, old]
    assert store.verify().faults == ()


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=40), st.binary(max_size=40))
def test_common_ends_never_overlap(old: bytes, new: bytes) -> None:
    front, back = content.common_ends(old, new)
    assert front + back <= min(len(old), len(new))
    assert old[:front] == new[:front]
    assert old[len(old) - back :] == new[len(new) - back :]
    room = min(len(old), len(new))
    assert front == room or old[front] != new[front]


def test_an_attachment_is_stored_once_and_decoded() -> None:
    store, backend = fresh()
    media = base64.b64encode(os.urandom(3000))
    messages = [b'{"turn":%d,"data":"' % n + media + b'"}' for n in range(5)]
    chunks = [chunk(m, attachments=((m.index(media), m.index(media) + len(media)),)) for m in messages]
    store.append(S, 0, [note(1)], chunks)
    assert store.chunks([one.digest for one in chunks]) == messages
    assert kind(backend, messages[0]) == packing.SPLICE
    assert kind(backend, media) == packing.BASE64
    assert sum(map(len, backend.bodies.values())) < 1.3 * 3000


def test_a_revision_costs_what_changed() -> None:
    store, backend = fresh()
    text = b"".join(sha256(b"%d" % n).hexdigest().encode() for n in range(200))
    revised = [text[:5000] + b"revision %d" % n + text[5000:] for n in range(12)]
    store.append(S, 0, [note(1)], [chunk(text)])
    before = text
    for version, body in enumerate(revised, 1):
        store.append(S, version, [note(version)], [chunk(body, base=sha256(before).digest())])
        before = body
    assert store.chunks([sha256(body).digest() for body in revised]) == revised
    sizes = [len(backend.bodies[sha256(body).digest()]) for body in revised]
    # A chain of revisions is broken by a whole one, so that reading the newest stays cheap.
    assert [size > 1000 for size in sizes] == [False] * content.DEPTH_LIMIT + [True] + [False] * 3
    assert store.verify().faults == ()


def test_an_attachment_that_a_revision_changed_in_its_middle_is_cut_out_whole() -> None:
    store, backend = fresh()
    raw = os.urandom(900)
    old, new = (base64.b64encode(raw[:450] + mark + raw[450:]) for mark in (b"one", b"two"))
    frame = b"the same text again " * 100
    spans = ((len(frame), len(frame) + len(old)),)
    store.append(S, 0, [note(1)], [chunk(frame + old + frame, attachments=spans)])
    revised = frame + new + frame
    base = sha256(frame + old + frame).digest()
    store.append(S, 1, [note(2)], [chunk(revised, attachments=spans, base=base)])
    assert kind(backend, revised) == packing.DELTA
    assert kind(backend, new) == packing.BASE64
    assert store.chunks([sha256(revised).digest(), sha256(new).digest()]) == [revised, new]


def test_a_revision_in_the_same_append_as_its_base() -> None:
    store, backend = fresh()
    old, new = b"the same text again " * 30, b"the same text again " * 30 + b"and more"
    store.append(S, 0, [note(1)], [chunk(old), chunk(new, base=sha256(old).digest())])
    assert kind(backend, new) == packing.DELTA
    assert store.chunks([sha256(new).digest()]) == [new]


@pytest.mark.parametrize("harm", ["missing", "altered"])
def test_a_base_that_cannot_be_read_does_not_stop_a_message(harm: str) -> None:
    store, backend = fresh()
    old, new = b"the same text again " * 30, b"the same text again " * 30 + b"and more"
    store.append(S, 0, [note(1)], [chunk(old)] if harm == "altered" else [])
    if harm == "altered":
        backend.bodies[sha256(old).digest()] = b"\x01garbage"
    store.append(S, 1, [note(2)], [chunk(new, base=sha256(old).digest())])
    assert kind(backend, new) != packing.DELTA
    assert store.chunks([sha256(new).digest()]) == [new]


def test_damage_in_what_a_chunk_stands_on_is_found() -> None:
    store, backend = fresh()
    media = base64.b64encode(os.urandom(300))
    old = b"the same text again " * 30 + media + b" end"
    at = old.index(media)
    new = old + b"and more"
    spans = ((at, at + len(media)),)
    store.append(S, 0, [note(1)], [chunk(old, attachments=spans)])
    store.append(S, 1, [note(2)], [chunk(new, attachments=spans, base=sha256(old).digest())])
    backend.bodies[sha256(media).digest()] = b"\x05" + os.urandom(300)
    with pytest.raises(StoreDamaged, match=sha256(media).hexdigest()):
        store.chunks([sha256(new).digest()])
    del backend.bodies[sha256(media).digest()]
    with pytest.raises(StoreDamaged, match="missing"):
        store.chunks([sha256(new).digest()])


def test_chunks_that_stand_on_each_other_end_in_an_error() -> None:
    store, backend = fresh()
    a, b = sha256(b"a").digest(), sha256(b"b").digest()
    for own, other in ((a, b), (b, a)):
        encoded = content._ENCODER.encode(content.Delta(other, 1, 0, 0, b"\x00"))
        backend.bodies[own] = bytes((packing.DELTA,)) + encoded
    with pytest.raises(StoreDamaged, match="too many"):
        store.chunks([a])


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_as_a_stored_body_end_in_our_error(stored: bytes) -> None:
    store, backend = fresh()
    digest = sha256(b"what it should be").digest()
    backend.bodies[digest] = stored
    with pytest.raises(StoreDamaged):
        store.chunks([digest])


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400), st.integers(0, 50))
def test_packing_round_trip(data: bytes, times: int) -> None:
    packer = packing.make_packer(load_dictionary())
    stored = packing.pack(packer, data * times)
    assert packing.unpack(packer, stored, 1 << 20) == data * times
    assert len(stored) <= len(data) * times + 1


def test_a_bomb_is_not_unpacked() -> None:
    packer = packing.make_packer(load_dictionary())
    stored = packing.pack(packer, bytes(5_000_000))
    assert stored[0] == packing.ZLIB
    with pytest.raises(packing.Unreadable, match="more than 1000 bytes"):
        packing.unpack(packer, stored, 1000)


def test_the_dictionary_is_the_released_one_and_pays() -> None:
    dictionary = load_dictionary()
    assert 1000 < len(dictionary) <= 32 * 1024
    message = b'{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_01A","content":"ok"}]}'
    with_it = packing.pack(packing.make_packer(dictionary), message)
    without = packing.pack(packing.make_packer(b"\x00"), message)
    assert len(with_it) < len(without)


def test_another_dictionary_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convention 30: bodies written with it could not be read anywhere else."""
    monkeypatch.setattr(dictionary, "FILE", "dictionary.py")
    with pytest.raises(StoreUnavailable, match="is not the one this version was released with"):
        load_dictionary()

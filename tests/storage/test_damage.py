"""What was altered behind the program's back is found, named, and stops that stream alone (``design.md`` 3, Chain)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from foldlog.domain.errors import Conflict, InputError, StoreDamaged, StoreNewer
from foldlog.domain.events import HeadLost
from foldlog.storage import verify
from foldlog.storage.codec import BODY_AT, chain_digest, chain_prefix, head_seal
from foldlog.storage.packing import ENCRYPTED_FROM
from foldlog.storage.store import Store
from support.events import chunk, long_event, names, note, notes
from support.stores import Kit

S, OTHER = "session/api/one", "session/api/two"


def flip(at: int) -> Callable[[bytes], bytes]:
    """Return a change of one bit at byte ``at``."""
    return lambda data: (
        data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] if at >= 0 else data[:-1] + bytes([data[-1] ^ 1])
    )


@pytest.fixture
def store(kit: Kit) -> Store:
    """Return a store with two streams of six events."""
    store = kit.open()
    for stream in (S, OTHER):
        store.append(stream, 0, notes(1, 5))
        store.append(stream, 5, [long_event(3000)])
    return store


def found(store: Store) -> tuple[int, int]:
    """Read the stream to its end; return the position the error names, and how many events came before it."""
    good = 0
    with pytest.raises(StoreDamaged) as caught:
        for stored in store.read(S):
            good += 1
            assert stored.version == good
            assert stored.event == note(good)
    assert caught.value.stream == S
    # Nothing else stops: the other stream reads to its end.
    assert len(list(store.read(OTHER))) == 6
    return caught.value.version, good


def kinds(store: Store) -> list[tuple[str, str, int]]:
    """Return what ``verify`` finds."""
    return [(fault.kind, fault.stream, fault.version) for fault in store.verify().faults]


@pytest.mark.parametrize("at", [0, 1, 32, BODY_AT, BODY_AT + 9, -1])
@pytest.mark.parametrize("version", [1, 3, 6])
def test_an_altered_event(kit: Kit, store: Store, version: int, at: int) -> None:
    kit.alter_state(S, version, flip(at))
    position, good = found(store)
    assert position == version
    assert good in (version - 1, version - 2)
    assert (("event-altered", S, version)) in kinds(store)
    assert all(stream != OTHER for _, stream, _ in kinds(store))


def test_a_header_reserved_for_encryption_is_refused_by_name(kit: Kit, store: Store) -> None:
    kit.alter_state(S, 4, lambda state: bytes([ENCRYPTED_FROM]) + state[1:])
    with pytest.raises(StoreDamaged, match="reserved for encryption") as caught:
        list(store.read(S))
    assert caught.value.version == 4


@pytest.mark.parametrize("topic", ["FR", "SO", "ZZ", "", "x" * 300])
@pytest.mark.parametrize("version", [1, 3, 6])
def test_an_altered_topic_is_damage_not_a_newer_store(kit: Kit, store: Store, version: int, topic: str) -> None:
    kit.alter_topic(S, version, topic)
    assert found(store)[0] == version


@pytest.mark.parametrize("version", [1, 3])
def test_a_removed_event(kit: Kit, store: Store, version: int) -> None:
    kit.remove(S, version, version)
    assert found(store) == (version, version - 1)
    assert ("event-missing", S, version) in kinds(store)


@pytest.mark.parametrize("first", [2, 6])
def test_a_cut_tail(kit: Kit, store: Store, first: int) -> None:
    kit.remove(S, first, 6)
    assert found(store) == (first, first - 1)
    assert ("tail-cut", S, first) in kinds(store)
    with pytest.raises(StoreDamaged):
        list(store.read(S, after=first - 1))


@pytest.mark.parametrize("pair", [(1, 2), (3, 4), (2, 5), (5, 6)])
def test_swapped_events(kit: Kit, store: Store, pair: tuple[int, int]) -> None:
    kit.swap(S, *pair)
    position, good = found(store)
    assert position == pair[0]
    assert good <= position - 1
    assert ("event-altered", S, pair[0]) in kinds(store)


def test_events_of_another_stream_do_not_fit(kit: Kit) -> None:
    store = kit.open()
    states: dict[str, list[bytes]] = {S: [], OTHER: []}
    for stream in (S, OTHER):
        store.append(stream, 0, notes(1, 2))
        for version in (1, 2):
            kit.alter_state(stream, version, lambda state, kept=states[stream]: kept.append(state) or state)  # type: ignore[misc]
    # The same event first in both streams: only the stream's name in the chain tells them apart.
    kit.alter_state(S, 2, lambda _: states[OTHER][1])
    with pytest.raises(StoreDamaged) as caught:
        list(store.read(S))
    assert caught.value.version == 2


def test_a_deleted_stream(kit: Kit, store: Store) -> None:
    kit.remove(S, 1, 6)
    assert found(store) == (1, 0)
    assert ("tail-cut", S, 1) in kinds(store)
    kit.remove_head(S)
    with pytest.raises(StoreDamaged):
        store.head(S)
    with pytest.raises(StoreDamaged):
        list(store.read(S))
    assert ("stream-missing", S, 0) in kinds(store)
    assert store.verify(repair=True).repaired == ()


@pytest.mark.parametrize("change", [{"version": 5}, {"version": 7}, {"digest": b"d" * 32}, {"version": 0}])
def test_an_altered_head(kit: Kit, store: Store, change: dict[str, object]) -> None:
    kit.alter_head(S, **change)  # type: ignore[arg-type]
    for call in (lambda: list(store.read(S)), lambda: store.head(S)):
        with pytest.raises(StoreDamaged, match="head of the stream was altered"):
            call()
    with pytest.raises((StoreDamaged, Conflict)):
        store.append(S, 6, [note(7)])
    assert [kind for kind, stream, _ in kinds(store) if stream == S] == ["head-altered"]
    assert len(list(store.read(OTHER))) == 6


def test_a_head_that_was_put_back_by_somebody_who_knows_its_seal(kit: Kit, store: Store) -> None:
    """A forger can do that; the events behind the head still give it away, and repair goes forward."""
    at_four = list(store.read(S))[3].digest
    kit.write_head(S, 4, at_four, head_seal(S, 4, at_four))
    assert found(store) == (5, 4)
    with pytest.raises(StoreDamaged):
        store.append(S, 4, [note(9)])
    assert ("head-behind", S, 5) in kinds(store)
    report = store.verify(repair=True)
    assert [(fault.kind, fault.stream) for fault in report.repaired] == [("head-behind", S)]
    assert report.faults == ()
    assert len(list(store.read(S))) == 6
    assert store.append(S, 6, [note(7)]).version == 7


def test_a_missing_head_is_restored_after_a_complete_walk(kit: Kit, store: Store) -> None:
    before = store.head(S)
    kit.remove_head(S)
    for call in (lambda: list(store.read(S)), lambda: store.head(S), lambda: store.append(S, 6, [note(7)])):
        with pytest.raises(StoreDamaged, match="head of the stream is missing"):
            call()
    assert kinds(store) == [("head-missing", S, 6)]
    assert kinds(store) == [("head-missing", S, 6)], "verify alone mends nothing"
    assert len(store.verify(repair=True).repaired) == 1
    assert store.head(S) == before
    assert kinds(store) == []


def test_a_repair_moves_no_head_that_moved_meanwhile(kit: Kit, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Convention 15: else what another process appended during the walk would be behind the head, lost to readers."""
    before = store.head(S)
    assert before is not None
    kit.alter_head(S, digest=b"d" * 32)
    real = verify._mend

    def late(*given: Any, **more: Any) -> None:
        kit.write_head(S, 6, before.digest, head_seal(S, 6, before.digest))
        store.append(S, 6, [note(7)])
        real(*given, **more)

    monkeypatch.setattr(verify, "_mend", late)
    with pytest.raises(Conflict):
        store.verify(repair=True)
    assert [stored.event for stored in store.read(S)][-1] == note(7)


def test_an_altered_head_is_restored_but_never_moved_back(kit: Kit, store: Store) -> None:
    before = store.head(S)
    kit.alter_head(S, digest=b"d" * 32)
    store.verify(repair=True)
    assert store.head(S) == before
    kit.alter_head(S, version=9)
    report = store.verify(repair=True)
    assert report.repaired == ()
    assert [fault.kind for fault in report.faults] == ["head-altered"]


def test_repair_does_not_move_a_head_over_damage(kit: Kit, store: Store) -> None:
    kit.alter_state(S, 3, flip(40))
    kit.remove_head(S)
    report = store.verify(repair=True)
    assert report.repaired == ()
    assert [(fault.kind, fault.version) for fault in report.faults] == [("event-altered", 3)]


@pytest.mark.parametrize("harm", ["altered", "tail", "last", "everything"])
def test_loss_is_accepted_for_one_stream_by_name(kit: Kit, store: Store, harm: str) -> None:
    """Convention 15: backward only with ``accept_loss``, recorded; what is lost is put aside, not deleted."""
    if harm == "altered":
        kit.alter_state(S, 3, flip(40))
    elif harm == "tail":
        kit.remove(S, 4, 6)
    elif harm == "last":
        kit.alter_state(S, 6, flip(-1))
    else:
        kit.remove(S, 1, 6)
        kit.remove_head(S)
    assert store.verify(repair=True).repaired == ()
    with pytest.raises(InputError):
        store.verify(accept_loss="session/api/none")
    assert store.verify(accept_loss=OTHER).repaired == ()
    assert [fault.stream for fault in store.verify(accept_loss=S).repaired] == [S]
    kept = [stored.event for stored in store.read(S)]
    rest = {"altered": len(kept) - 1, "tail": 3, "last": 5, "everything": 0}[harm]
    assert kept[:rest] == notes(1, rest)
    assert harm != "altered" or rest in (1, 2)
    told = [(event.was, event.kept) for event in kept[rest:] if isinstance(event, HeadLost)]
    assert told == ([] if harm == "everything" else [(6, rest)]), "going backward is itself an event"
    # A stream of which nothing is left can be begun again.
    assert (store.head(S) is None) == (harm == "everything")
    assert store.append(S, len(kept), [note(50)]).version == len(kept) + 1
    assert [stored.event for stored in store.read(S)] == [*kept, note(50)]
    left = {fault.kind for fault in store.verify().faults}
    assert left <= ({"stray-gap"} if harm in ("tail", "everything") else set())


def test_reading_on_from_a_place_that_is_not_there_any_more(kit: Kit, store: Store) -> None:
    with pytest.raises(StoreDamaged):
        list(store.read(S, after=9))
    with pytest.raises(StoreDamaged):
        list(store.read("session/api/none", after=2))
    with pytest.raises(StoreDamaged) as caught:
        list(store.read(S, after=3, prev=b"p" * 32))
    assert caught.value.version == 3


def test_an_unknown_tag_in_a_whole_chain_is_a_newer_store(kit: Kit, store: Store) -> None:
    """``design.md`` 3, Evolution: refused, never skipped; what stands before it is read."""
    last = list(store.read(S))[-2]
    body = b"\x93\xa2Z9\x01\xa0"
    kit.alter_state(S, 6, lambda _: b"\x00" + last.digest + body)
    kit.alter_topic(S, 6, "Z9")
    digest = chain_digest(chain_prefix(S), 6, b"Z9", last.digest, body)
    kit.write_head(S, 6, digest, head_seal(S, 6, digest))
    read = []
    with pytest.raises(StoreNewer, match="Z9") as caught:
        read.extend(stored.version for stored in iter_into(store, read))
    assert caught.value.where == f"{S} @ 6"
    assert read == [1, 2, 3, 4, 5]
    assert kinds(store) == [("event-newer", S, 6)]
    assert store.verify(repair=True, accept_loss=S).repaired == (), "a newer program's events are not lost ones"


def iter_into(store: Store, seen: list[int]):  # type: ignore[no-untyped-def]
    """Yield nothing; put every version read into ``seen``."""
    for stored in store.read(S):
        seen.append(stored.version)
    yield from ()


@pytest.mark.parametrize("data", [b"small", b"a message of some length " * 40, bytes(range(256)) * 8])
def test_an_altered_chunk(kit: Kit, store: Store, data: bytes) -> None:
    one, other = chunk(data), chunk(b"whole " * 30)
    store.append(S, 6, [names(data)], [one, other])
    length = len(kit.chunk(one.digest))
    for at in sorted({0, length // 2, length - 1}):
        whole = kit.chunk(one.digest)
        kit.alter_chunk(one.digest, flip(at))
        with pytest.raises(StoreDamaged, match=one.digest.hex()):
            store.chunks([other.digest, one.digest])
        assert [kind for kind, _, _ in kinds(store)] == ["chunk-altered"]
        kit.alter_chunk(one.digest, lambda _, whole=whole: whole)  # type: ignore[misc]
    assert store.chunks([other.digest]) == [other.data]
    kit.alter_chunk(one.digest, lambda _: b"")
    with pytest.raises(StoreDamaged, match=one.digest.hex()):
        store.chunks([one.digest])


def test_a_missing_chunk_is_named_with_the_event_that_names_it(kit: Kit, store: Store) -> None:
    body = b"to be removed " * 20
    store.append(S, 6, [note(7), names(body)], [chunk(body)])
    kit.remove_chunk(chunk(body).digest)
    with pytest.raises(StoreDamaged, match="missing"):
        store.chunks([chunk(body).digest])
    report = store.verify()
    assert [(fault.kind, fault.stream, fault.version) for fault in report.faults] == [("chunk-missing", S, 8)]
    assert chunk(body).digest.hex() in report.faults[0].message


def test_verify_reports_progress(store: Store) -> None:
    calls: list[tuple[str, int, int]] = []
    store.append(S, 6, [note(7)], [chunk(b"x")])
    store.verify(progress=lambda what, done, total: calls.append((what, done, total)))
    assert ("streams", 0, 2) in calls
    assert any(what == "chunks" for what, _, _ in calls)

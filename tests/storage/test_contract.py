"""What every store must do (issue 2, section 2): one test for all three."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path

import pytest

from foldlog.domain.errors import Conflict, InputError, StoreBusy, StoreNewer, StoreUnavailable, TooLarge
from foldlog.domain.events import RequestOutcome
from foldlog.storage import content
from foldlog.storage.codec import SCHEMA, chain_digest, chain_prefix
from foldlog.storage.protocol import ATTACHMENT_LIMIT, EVENT_LIMIT, MESSAGE_LIMIT, Chunk, Head
from foldlog.storage.store import Store
from foldlog.storage.stores import open_store
from support.events import chunk, flush, long_event, names, note, notes
from support.stores import Kit

S = "session/api/one"


def events_of(store: Store, stream: str = S, after: int = 0, until: int | None = None) -> list[object]:
    return [stored.event for stored in store.read(stream, after, until)]


def test_what_is_appended_is_read_back_by_another_door(kit: Kit) -> None:
    store = kit.open()
    head = store.append(S, 0, notes(1, 3))
    assert head.version == 3
    head = store.append(S, 3, [long_event(5000), note(5)])
    other = kit.open()
    assert events_of(other) == [*notes(1, 3), long_event(5000), note(5)]
    assert other.head(S) == head == Head(S, 5, head.digest)
    assert [stored.version for stored in other.read(S)] == [1, 2, 3, 4, 5]
    assert [stored.digest for stored in other.read(S)][-1] == head.digest


def test_the_chain_digest_is_what_the_design_says(kit: Kit) -> None:
    """``design.md`` 3: stream, version, tag, digest of the predecessor, plain body; also for a compressed one."""
    store = kit.open()
    store.append(S, 0, [note(1), long_event(4000)])
    codec = store._codec
    prev = bytes(32)
    for version, stored in enumerate(store.read(S), 1):
        plain = codec.encoder.encode(stored.event)
        tag = type(stored.event).__struct_config__.tag
        prev = chain_digest(chain_prefix(S), version, str(tag).encode(), prev, plain)
        assert stored.digest == prev


def test_reading_a_range(kit: Kit) -> None:
    store = kit.open()
    store.append(S, 0, notes(1, 10))
    digests = [stored.digest for stored in store.read(S)]
    assert events_of(store, after=4) == notes(5, 6)
    assert events_of(store, after=4, until=7) == notes(5, 3)
    assert events_of(store, after=10) == []
    assert events_of(store, until=99) == notes(1, 10)
    assert [s.event for s in store.read(S, 4, None, digests[3])] == notes(5, 6)


def test_long_streams_are_read_across_batches(kit: Kit) -> None:
    store = kit.open()
    version = 0
    for first in range(1, 10_001, 2500):
        version = store.append(S, version, notes(first, 2500)).version
    assert events_of(store) == notes(1, 10_000)


def test_a_stream_that_is_not_there(kit: Kit) -> None:
    store = kit.open()
    assert store.head(S) is None
    assert list(store.read(S)) == []
    assert store.heads() == []
    with pytest.raises(Conflict) as caught:
        store.append(S, 3, [note(1)])
    assert (caught.value.expected, caught.value.found) == (3, 0)
    assert store.heads() == []


def test_conflict_names_both_versions_and_stores_nothing(kit: Kit) -> None:
    store, other = kit.open(), kit.open()
    store.append(S, 0, notes(1, 2))
    for expected in (0, 1, 5):
        with pytest.raises(Conflict) as caught:
            other.append(S, expected, [note(9)], [chunk(b"never stored" * 20)])
        assert (caught.value.expected, caught.value.found) == (expected, 2)
    assert events_of(other) == notes(1, 2)
    assert store._backend.present([chunk(b"never stored" * 20).digest]) == set()
    assert other.append(S, 2, [note(3)]).version == 3


def test_streams_do_not_see_each_other(kit: Kit) -> None:
    """Two hosts on one store (issue 2, section 2)."""
    store = kit.open()
    for number, stream in enumerate(("session/pi/x", "session/api/x", "session/api/y", "project/x"), 1):
        store.append(stream, 0, notes(number * 10, number))
    assert [head.stream for head in store.heads("session/api/")] == ["session/api/x", "session/api/y"]
    assert [head.stream for head in store.heads()] == ["project/x", "session/api/x", "session/api/y", "session/pi/x"]
    assert events_of(store, "session/pi/x") == notes(10, 1)
    assert events_of(store, "session/api/x") == notes(20, 2)


@pytest.mark.parametrize("stream", ["session/api/%", "ünï/\U0001f600", "a'b\"c", "x" * 1000, "s_%\\", " "])
def test_odd_stream_ids(kit: Kit, stream: str) -> None:
    store = kit.open()
    store.append(stream, 0, [note(1)])
    assert events_of(kit.open(), stream) == [note(1)]
    assert [head.stream for head in store.heads(stream)] == [stream]
    assert store.heads(stream + "z") == []


@pytest.mark.parametrize("stream", ["", "a\x00b", "a\ud800", "x" * 1025])
def test_refused_stream_ids(kit: Kit, stream: str) -> None:
    store = kit.open()
    for call in (
        lambda: store.append(stream, 0, [note(1)]),
        lambda: list(store.read(stream)),
        lambda: store.head(stream),
    ):
        with pytest.raises(InputError):
            call()
    assert store.heads() == []


def test_what_cannot_be_read_back_is_not_stored(kit: Kit) -> None:
    store = kit.open()
    store.append(S, 0, [note(1)])
    bad = [
        RequestOutcome(1, "", "1", "unknown"),
        RequestOutcome(1, "\ud800", 1, ""),
        note(1 << 70),
        object(),
        chunk(b"x"),
    ]
    for event in bad:
        with pytest.raises(InputError):
            store.append(S, 1, [note(2), event])  # type: ignore[list-item]
    with pytest.raises(InputError):
        store.append(S, 1, [])
    with pytest.raises(InputError):
        store.append(S, -1, [note(1)])
    assert events_of(store) == [note(1)]


def test_limits_name_the_size_and_what_is_allowed(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    store = kit.open()
    with pytest.raises(TooLarge) as caught:
        store.append(S, 0, [long_event(EVENT_LIMIT)])
    assert str(EVENT_LIMIT) in caught.value.message
    assert str(caught.value.value) in caught.value.message
    assert (MESSAGE_LIMIT, ATTACHMENT_LIMIT) == (32 << 20, 64 << 20)
    monkeypatch.setattr(content, "MESSAGE_LIMIT", 1000)
    monkeypatch.setattr(content, "ATTACHMENT_LIMIT", 2000)
    with pytest.raises(TooLarge, match=r"1001 bytes.*1000 are allowed"):
        store.append(S, 0, [note(1)], [chunk(b"m" * 1001)])
    with pytest.raises(TooLarge, match=r"2001 bytes.*2000 are allowed"):
        store.append(S, 0, [note(1)], [chunk(b"m" * 2500, attachments=((10, 2011),))])
    # An attachment does not count against the message it stands in.
    store.append(S, 0, [note(1)], [chunk(b"m" * 2500, attachments=((10, 2010),))])
    assert store.chunks([chunk(b"m" * 2500).digest]) == [b"m" * 2500]
    assert store.head(S) is not None


def test_chunks_come_back_in_the_order_asked_for(kit: Kit) -> None:
    store = kit.open()
    bodies = [b"", b"tiny", b"a message " * 100, bytes(range(256)) * 40]
    store.append(S, 0, [note(1)], [chunk(body) for body in bodies])
    asked = [bodies[2], bodies[0], bodies[2], bodies[3], bodies[1]]
    assert kit.open().chunks([sha256(body).digest() for body in asked]) == asked
    assert store.chunks([]) == []


def test_many_chunks_at_once(kit: Kit) -> None:
    store = kit.open()
    bodies = [f"body number {n}".encode() * 10 for n in range(700)]
    store.append(S, 0, notes(1, 700), [chunk(body) for body in bodies])
    assert store.chunks([sha256(body).digest() for body in bodies]) == bodies
    assert events_of(store) == notes(1, 700)


def test_a_chunk_is_stored_once_and_shared(kit: Kit) -> None:
    store = kit.open()
    body = b"shared by two sessions " * 50
    store.append(S, 0, [names(body)], [chunk(body), chunk(body)])
    before = kit.chunk(chunk(body).digest)
    store.append("session/pi/two", 0, [names(body)], [chunk(body)])
    assert kit.chunk(chunk(body).digest) == before
    report = store.verify()
    assert (report.streams, report.events, report.chunks, report.faults) == (2, 2, 1, ())


def test_a_chunk_with_a_wrong_digest_or_wrong_spans_is_refused(kit: Kit) -> None:
    store = kit.open()
    with pytest.raises(InputError):
        store.append(S, 0, [note(1)], [Chunk(bytes(32), b"data")])
    for spans in (((5, 3),), ((0, 200),), ((50, 80), (20, 30)), ((-1, 4),)):
        with pytest.raises(InputError):
            store.append(S, 0, [note(1)], [chunk(b"d" * 100, attachments=spans)])
    assert store.head(S) is None


def test_snapshots_are_replaced_bounded_and_checked(kit: Kit) -> None:
    store = kit.open()
    head = store.append(S, 0, notes(1, 3))
    assert store.load_snapshot(S, "state 1") is None
    store.save_snapshot(S, 2, b"2" * 32, "state 1", b"older")
    store.save_snapshot(S, 3, head.digest, "state 1", b"newer" * 1000)
    store.save_snapshot(S, 3, head.digest, "state 2", b"")
    assert store.load_snapshot(S, "state 1") == (head, b"newer" * 1000)
    assert store.load_snapshot(S, "state 2", 3) == (head, b"")
    assert store.load_snapshot(S, "state 1", upto=2) is None
    assert store.load_snapshot("session/api/none", "state 1") is None
    with pytest.raises(InputError):
        store.save_snapshot("session/api/none", 1, head.digest, "state 1", b"")
    kit.alter_snapshot(lambda body: body[:-1] + bytes([body[-1] ^ 1]) if len(body) > 1 else b"\x00x")
    assert store.load_snapshot(S, "state 1") is None
    assert store.load_snapshot(S, "state 2") is None
    assert events_of(store) == notes(1, 3)


def test_notices_show_every_append_once_in_order(kit: Kit) -> None:
    store = kit.open()
    store.append("a", 0, notes(1, 2))
    store.append("b", 0, notes(3, 1))
    store.append("a", 2, notes(4, 1))
    seen, position = [], 0
    while page := kit.open().notices(position, limit=2):
        assert [notice.position for notice in page] == sorted({notice.position for notice in page})
        assert page[0].position > position
        assert len(page) <= 2
        seen += [(notice.stream, notice.version) for notice in page]
        position = page[-1].position
    assert seen == [("a", 1), ("a", 2), ("b", 1), ("a", 3)]
    assert store.notices(position) == []


@pytest.mark.slow
def test_a_follower_misses_nothing_while_threads_append(kit: Kit) -> None:
    store = kit.open()
    done = threading.Event()
    seen: list[tuple[str, int]] = []

    def follow() -> None:
        position = 0
        while True:
            last = done.is_set()
            page = store.notices(position)
            seen.extend((notice.stream, notice.version) for notice in page)
            position = page[-1].position if page else position
            if last and not page:
                return

    def work(name: str) -> None:
        for version in range(25):
            append_patiently(store, name, version)

    follower = threading.Thread(target=follow)
    follower.start()
    run_all([lambda name=f"s{n}": work(name) for n in range(4)])
    done.set()
    follower.join()
    assert len(seen) == len(set(seen)) == 100


def append_patiently(store: Store, stream: str, version: int) -> None:
    for _ in range(40):
        try:
            store.append(stream, version, [note(version)])
        except StoreBusy:
            continue
        return
    raise AssertionError("busy for ten seconds")


def run_all(jobs: list[Callable[[], None]]) -> None:
    failed: list[BaseException] = []

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001 - handed to the test below: a thread's own would be lost
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_threads_racing_on_one_stream_lose_and_double_nothing(kit: Kit) -> None:
    store = kit.open()
    wins: list[int] = []
    conflicts: list[int] = []
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        barrier.wait()
        for turn in range(15):
            while True:
                head = store.head(S)
                try:
                    store.append(S, head.version if head else 0, [note(number * 100 + turn)])
                except (Conflict, StoreBusy):
                    conflicts.append(number)
                    continue
                wins.append(number * 100 + turn)
                break

    run_all([lambda number=n: work(number) for n in range(1, 5)])
    stored = [event.number for event in events_of(store)]  # type: ignore[attr-defined]
    assert sorted(stored) == sorted(wins)
    assert len(stored) == 60
    assert store.verify().faults == ()


@pytest.mark.parametrize("point", ["before", "inside", "after"])
def test_a_failure_at_each_point_of_an_append(kit: Kit, point: str) -> None:
    """``after`` is an acknowledgement that was lost: the append happened."""
    armed = []

    def hook(where: str) -> None:
        if armed and where == point:
            raise RuntimeError(where)

    store = kit.open(hook)
    store.append(S, 0, [note(1)])
    armed.append(True)
    body = b"a body " * 50
    with pytest.raises(RuntimeError, match=point):
        store.append(S, 1, [names(body)], [chunk(body)])
    armed.clear()
    stored = point == "after"
    assert events_of(kit.open()) == [note(1), *([names(body)] if stored else [])]
    assert bool(store._backend.present([chunk(body).digest])) == stored
    assert store.append(S, 2 if stored else 1, [note(2)]).version == (3 if stored else 2)
    assert store.verify().faults == ()


def test_a_newer_store_is_refused_with_both_versions(kit: Kit) -> None:
    store = kit.open()
    store.append(S, 0, [note(1)])
    kit.fence(SCHEMA + 6)
    with pytest.raises(StoreNewer) as caught:
        store.append(S, 1, [note(2)])
    assert str(SCHEMA + 6) in caught.value.message
    assert str(SCHEMA) in caught.value.message
    with pytest.raises(StoreNewer, match=str(SCHEMA + 6)):
        kit.open().heads()
    kit.fence(SCHEMA)
    assert events_of(kit.open()) == [note(1)]


def test_backup_of_a_hot_store(kit: Kit, tmp_path: Path) -> None:
    store = kit.open()
    body = b"in the backup " * 40
    head = store.append(S, 0, [note(1), names(body)], [chunk(body)])
    stop = threading.Event()

    def busy() -> None:
        version = 0
        while not stop.is_set():
            text = f"hot {version} ".encode() * 20
            with suppress(StoreBusy):
                version = store.append("session/api/hot", version, [names(text)], [chunk(text)]).version

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        while store.head("session/api/hot") is None:
            pass
        target = tmp_path / "copy.db"
        size = store.backup(target)
    finally:
        stop.set()
        thread.join()
    assert size == target.stat().st_size > 0
    assert target.stat().st_mode & 0o777 == 0o600
    copy = open_store(f"sqlite:///{target}")
    assert copy.verify().faults == ()
    assert copy.head(S) == head
    assert list(copy.read(S)) == list(store.read(S))
    assert copy.chunks([chunk(body).digest]) == [body]
    hot, ours = copy.head("session/api/hot"), store.head("session/api/hot")
    assert hot is not None
    assert ours is not None
    assert 1 <= hot.version <= ours.version
    assert copy.append(S, 2, [note(3)]).version == 3
    with pytest.raises(InputError, match="exists already"):
        store.backup(target)
    with closing(sqlite3.connect(target)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_backup_to_where_nothing_can_be_written(kit: Kit, tmp_path: Path) -> None:
    store = kit.open()
    store.append(S, 0, [flush()])
    with pytest.raises(StoreUnavailable):
        store.backup(tmp_path / "no folder" / "copy.db")


def test_a_closed_store_says_so(kit: Kit) -> None:
    store = kit.open()
    store.append(S, 0, [note(1)])
    store.close()
    store.close()
    for call in (lambda: store.append(S, 1, [note(2)]), lambda: list(store.read(S)), lambda: store.notices(0)):
        with pytest.raises(StoreUnavailable):
            call()


def test_a_store_that_is_closed_under_its_readers(kit: Kit) -> None:
    store = kit.open()
    store.append(S, 0, notes(1, 400))
    ended: list[str] = []
    reading = threading.Event()

    def read() -> None:
        try:
            while True:
                assert len(list(store.read(S))) == 400
                reading.set()
        except StoreUnavailable as error:
            ended.append(error.code)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert reading.wait(20)
    store.close()
    for thread in threads:
        thread.join()
    assert ended == ["STORE_UNAVAILABLE"] * 3

"""Reports of several writers, busy and newer stores, each as a kind: several inputs (``specs/reports.md``)."""

from __future__ import annotations

import os
import socket
import sqlite3
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog.adapters import local
from foldlog.adapters.hosts import place
from foldlog.domain.errors import Conflict, StoreBusy, StoreError, StoreNewer, StoreUnavailable
from foldlog.storage.codec import SCHEMA
from foldlog.storage.sqlite import SQLiteBackend
from foldlog.storage.stores import open_store
from support.events import note
from support.linked import runtime_folder
from support.talk import Chat, differences, fingerprint, user

S = "session/api/one"


# ------------------------------------------------------------------- CL-01: a store that is busy, or cannot lock


@pytest.mark.rule("CL-01", "PROP-8", "REFUSE-6")
@pytest.mark.parametrize("held", [1, 3])
@pytest.mark.parametrize("door", ["prepare", "reduce", "flush", "usage"])
def test_a_busy_store_is_an_error_of_its_own_for_every_writer(held: int, door: str, tmp_path: Path):
    """Another process holds the lock for longer than anybody waits: each writer gets the one error that says to try
    again, nothing of its session changes, and all go on when it is let go.
    """
    url = f"sqlite:///{tmp_path}/busy.db"
    chats = [Chat(foldlog.Engine.open(url, summarizer=None), id=f"s{n}") for n in range(held)]
    requests = [chat.say(user("start")) for chat in chats]
    with closing(sqlite3.connect(tmp_path / "busy.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for chat, request in zip(chats, requests, strict=True):
            before = fingerprint(chat.session)
            with pytest.raises(StoreBusy) as caught:
                write(chat, request, door)
            assert (caught.value.recoverable, caught.value.code) == (True, "STORAGE_BUSY")
            assert fingerprint(chat.session) == before
        other.execute("ROLLBACK")
    for chat, request in zip(chats, requests, strict=True):
        write(chat, request, door)
        assert differences(chat.engine, chat.id) == []
        chat.engine.close()


def write(chat: Chat, request: foldlog.Request, door: str) -> None:
    if door == "prepare":
        chat.turn()
    elif door == "reduce":
        chat.session.reduce("1")
    elif door == "flush":
        chat.session.flush()
    else:
        request.report_usage(input=5_000)


@pytest.mark.rule("CL-01", "CL-06")
@pytest.mark.parametrize(
    ("code", "kind", "word"),
    [
        (sqlite3.SQLITE_BUSY, StoreBusy, "Try again"),
        (sqlite3.SQLITE_LOCKED, StoreBusy, "Try again"),
        (sqlite3.SQLITE_PROTOCOL, StoreUnavailable, "local disk"),
        (sqlite3.SQLITE_IOERR_LOCK, StoreUnavailable, "local disk"),
        (sqlite3.SQLITE_IOERR_SHMMAP, StoreUnavailable, "local disk"),
        (sqlite3.SQLITE_FULL, StoreUnavailable, "disk"),
        (sqlite3.SQLITE_READONLY, StoreUnavailable, "permissions"),
    ],
)
def test_a_folder_that_cannot_lock_is_named(code: int, kind: type[StoreError], word: str, tmp_path: Path):
    """Busy passes, locking that is not there does not: what to do is said for each."""
    backend = SQLiteBackend(tmp_path / "x.db")
    error = sqlite3.OperationalError("locking protocol")
    error.sqlite_errorcode = code
    made = backend._error(error)
    backend.close()
    assert type(made) is kind
    assert word in made.message


# ------------------------------------------------------------------- CL-02: newer than the program


@pytest.mark.rule("CL-02", "API-9")
@pytest.mark.parametrize("ahead", [1, 12, 1_000])
@pytest.mark.parametrize("when", ["before it is opened", "under an open session"])
def test_a_newer_store_is_refused_with_both_numbers_and_never_written(ahead: int, when: str, tmp_path: Path):
    path = tmp_path / "new.db"
    chat = Chat(foldlog.Engine.open(f"sqlite:///{path}", summarizer=None))
    chat.say(user("start"))
    if when == "before it is opened":
        chat.engine.close()
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (SCHEMA + ahead,))
    rows = contents(path)
    with pytest.raises(StoreNewer) as caught:
        if when == "before it is opened":
            foldlog.Engine.open(f"sqlite:///{path}", summarizer=None)
        else:
            chat.turn()
    assert str(SCHEMA + ahead) in caught.value.message
    assert f"up to {SCHEMA}" in caught.value.message
    assert contents(path) == rows
    chat.engine.close()


def contents(path: Path) -> list[Any]:
    with closing(sqlite3.connect(path)) as other:
        return [other.execute(f"SELECT * FROM {table}").fetchall() for table in ("meta", "stored_events", "heads")]


# ------------------------------------------------------------------- CL-04: the process of a number


@pytest.mark.rule("CL-04", "LINK-1", "PROC-2")
@pytest.mark.parametrize("owner", ["this process", "its parent", "the first of all"])
@pytest.mark.skipif(sys.platform == "win32", reason="modes and owners are those of Unix")
def test_a_number_that_another_program_has_now_holds_nothing(owner: str, monkeypatch: pytest.MonkeyPatch):
    """Run files of a proxy and a link that died, whose number lives on as something else: nobody takes them for alive,
    and the lock, which the system lets go with its process, is free.
    """
    pid = {"this process": os.getpid(), "its parent": os.getppid(), "the first of all": 1}[owner]
    with runtime_folder(monkeypatch), socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
        once.close()
        for file in (local.proxy_file(port), place.run_file()):
            local.write(file, local.Run(port, pid, local.new_token(), "0"))
        (local.runtime_folder() / place.LOCK).write_text(f"{pid}")
        assert local.proxies() == []
        assert place.running() is None
        with place.alone() as mine:
            assert mine


# ------------------------------------------------------------------- CL-06: what others write into the store


@pytest.mark.rule("CL-06")
@pytest.mark.parametrize("table", ["stored_events", "chunks", "heads", "streams"])
@pytest.mark.parametrize("function", ["theirs(NEW.rowid)", "abs(1)"])
def test_a_trigger_of_another_program_is_named_when_the_store_is_opened(table: str, function: str, tmp_path: Path):
    """Writes would run it, and fail where it calls a function only the other program has."""
    path = tmp_path / "x.db"
    foldlog.Engine.open(f"sqlite:///{path}", summarizer=None).close()
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(f"CREATE TRIGGER spy_on_{table} AFTER INSERT ON {table} BEGIN SELECT {function}; END")
    with pytest.raises(StoreUnavailable) as caught:
        foldlog.Engine.open(f"sqlite:///{path}", summarizer=None)
    assert f"spy_on_{table}" in caught.value.message
    assert f"DROP TRIGGER spy_on_{table}" in caught.value.message
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(f"DROP TRIGGER spy_on_{table}")
    foldlog.Engine.open(f"sqlite:///{path}", summarizer=None).close()


@pytest.mark.rule("CL-06")
def test_the_store_itself_has_no_trigger_view_or_function_of_its_own(tmp_path: Path):
    path = tmp_path / "x.db"
    chat = Chat(foldlog.Engine.open(f"sqlite:///{path}", summarizer=None))
    chat.say(user("start"))
    chat.engine.close()
    with closing(sqlite3.connect(path)) as plain:
        kinds = {kind for (kind,) in plain.execute("SELECT type FROM sqlite_master")}
        assert kinds == {"table", "index"}


# ------------------------------------------------------------------- CL-08: numbers taken twice


@pytest.mark.rule("CL-08", "PROP-9", "API-7")
@pytest.mark.parametrize("kind", ["sqlite", "memory"])
@pytest.mark.parametrize("doors", [2, 6])
def test_numbers_of_a_stream_are_given_out_once(kind: str, doors: int, tmp_path: Path):
    """Writers that append at the same moment: each version once, the losers told and trying again."""
    store = open_store(f"sqlite:///{tmp_path}/r.db" if kind == "sqlite" else "memory:")
    stores = [open_store(f"sqlite:///{tmp_path}/r.db") for _ in range(doors)] if kind == "sqlite" else [store] * doors
    lost: list[int] = []

    def append(one: Any, who: int) -> None:
        for turn in range(10):
            while True:
                head = one.head(S)
                try:
                    one.append(S, head.version if head else 0, [note(who * 100 + turn)])
                    break
                except (Conflict, StoreBusy):
                    lost.append(who)

    threads = [threading.Thread(target=append, args=(one, who)) for who, one in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    stored = list(store.read(S))
    assert [one.version for one in stored] == list(range(1, doors * 10 + 1))
    wanted = {repr(note(who * 100 + turn)) for who in range(doors) for turn in range(10)}
    assert {repr(one.event) for one in stored} == wanted


# ------------------------------------------------------------------- CL-09: a connection that is shared


@pytest.mark.rule("CL-09", "API-7")
@pytest.mark.parametrize("kind", ["sqlite", "memory"])
@pytest.mark.parametrize("fails", [True, False])
def test_a_reader_never_sees_what_is_not_committed(kind: str, fails: bool, tmp_path: Path):
    """While a write is under way a reader of the same store sees what was there before it, whatever becomes of it."""
    entered, leave, seen = threading.Event(), threading.Event(), []

    def hook(where: str) -> None:
        if where == "inside" and armed:
            entered.set()
            leave.wait(10)
            if fails:
                raise RuntimeError("in the middle")

    armed: list[int] = []
    store = open_store(f"sqlite:///{tmp_path}/c.db" if kind == "sqlite" else "memory:", hook)
    store.append(S, 0, [note(1)])
    armed.append(1)

    def write_one() -> None:
        with suppress(RuntimeError):
            store.append(S, 1, [note(2), note(3)])

    def read_all() -> None:
        for _ in range(20):
            seen.append(len(list(store.read(S))))

    writer = threading.Thread(target=write_one)
    writer.start()
    assert entered.wait(10)
    reader = threading.Thread(target=read_all)
    reader.start()
    if kind == "sqlite":
        reader.join(10)
        assert set(seen) == {1}
    leave.set()
    writer.join(10)
    reader.join(10)
    assert set(seen) <= ({1} if fails else {1, 3})
    assert len(list(store.read(S))) == (1 if fails else 3)
    store.close()

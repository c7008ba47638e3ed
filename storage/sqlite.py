"""The SQLite store: the tables, pool and reads of ``eventsourcing``, and a write transaction of ours (convention 28).

The library opens writes with a deferred ``BEGIN``; reading the fence or a head and then inserting would fail at once
when another process commits in between. So one writer connection stays open here and begins with ``BEGIN IMMEDIATE``.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from eventsourcing.persistence import PersistenceError
from eventsourcing.sqlite import (
    SQLiteApplicationRecorder,
    SQLiteConnection,
    SQLiteConnectionPool,
    SQLiteDatastore,
    SQLiteFactory,
)

from ..domain.errors import (
    Conflict,
    InputError,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreUnavailable,
)
from . import sqlite_sql as sql
from .backend import LOST, Hook, Move, Place, Snapshot, Write, check_fence, check_head, unknown_outcome
from .codec import SCHEMA, Row, head_seal
from .protocol import BUSY_MS, Head

OPEN_S = 5.0
"""How long opening may wait for another process that is making or switching the same file (seconds)."""

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_NO_LOCKS = {
    sqlite3.SQLITE_IOERR_LOCK,
    sqlite3.SQLITE_IOERR_RDLOCK,
    sqlite3.SQLITE_IOERR_SHMLOCK,
    sqlite3.SQLITE_IOERR_SHMMAP,
    sqlite3.SQLITE_IOERR_SHMOPEN,
}


class Pool(SQLiteConnectionPool):
    """The library's pool, with every PRAGMA the log depends on set on every connection."""

    def _create_connection(self) -> SQLiteConnection:
        # Made here and not by the library, which keeps one prepared statement a connection: each would be parsed anew.
        connection = sqlite3.connect(
            self.db_name,
            check_same_thread=False,
            isolation_level=None,
            cached_statements=64,
            timeout=BUSY_MS / 1000,
        )
        try:
            for pragma in sql.PRAGMAS:
                connection.execute(pragma)
        except BaseException:
            connection.close()
            raise
        connection.row_factory = sqlite3.Row
        return SQLiteConnection(sqlite_conn=connection, max_age=self.max_age)


class Datastore(SQLiteDatastore):
    """The library's datastore over our pool; a stream's key is text."""

    def __init__(self, db_name: str, **options: Any) -> None:
        super().__init__(db_name, **{**options, "originator_id_type": "text"})
        self.pool = Pool(db_name=db_name, pool_size=4, max_overflow=60, pool_timeout=OPEN_S)


class Recorder(SQLiteApplicationRecorder):
    """The library's events table, and ours beside it, made in one transaction."""

    def construct_create_table_statements(self) -> list[str]:
        return [*super().construct_create_table_statements(), *sql.TABLES]


class Factory(SQLiteFactory):
    """Makes the recorder above; tables are made by ``_prepare``, once the file is known to be ours."""

    application_recorder_class = Recorder

    def __init__(self, path: str) -> None:
        super().__init__({"SQLITE_DBNAME": path, "ORIGINATOR_ID_TYPE": "text", "CREATE_TABLE": "no"})
        self.datastore.close()
        self.datastore = Datastore(path)


class SQLiteBackend:
    """A ``Backend`` in one SQLite file."""

    ask_from = 64 * 1024  # asking costs as much as compressing a few kB, and what a pass brings is hardly ever there

    def __init__(self, path: Path) -> None:
        """Open the store at ``path``, making file (mode 0600) and folder where there are none.

        Raises ``StoreUnavailable`` where that cannot be done or the file is something else, ``StoreNewer``.
        """
        self.path = path.absolute()
        self.url = f"sqlite:///{path}"
        where = str(self.path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise StoreUnavailable(
                f"the store's file cannot be opened: {error.strerror}; name another file or change its permissions",
                value=where,
            ) from error
        self._refuse_foreign()
        self._lock = threading.Lock()
        self._idle = threading.Condition()
        self._reading = 0
        self._closed = False
        factory = Factory(where)
        self._datastore = factory.datastore
        self._recorder = factory.application_recorder()
        try:
            self._writer = self._first()
            self._cursor = self._writer.cursor().sqlite_cursor
            self._cursor.row_factory = None
            self._prepare()
        except BaseException:
            self._datastore.close()
            raise

    def _refuse_foreign(self) -> None:
        # Looked at read-only first: the library's connection would switch a database of something else to WAL.
        if self.path.stat().st_size == 0:
            return
        try:
            with contextlib.closing(sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True, timeout=OPEN_S)) as db:
                names = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
                triggers = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
        except sqlite3.Error as error:
            if _code(error) in _BUSY:
                raise self._error(error) from error
            raise StoreUnavailable(
                f"the file cannot be read as an SQLite database ({error}); name another file or restore a backup",
                value=str(self.path),
            ) from error
        if names and not {"meta", "stored_events"} <= names:
            raise StoreUnavailable(
                "the file is an SQLite database of something else, not a foldlog store; name another file",
                value=str(self.path),
            )
        if triggers:
            # every write would run it, and fail where it calls what only its own program has
            raise StoreUnavailable(
                f"another program put a trigger into the store ({triggers[0]}), which would run at foldlog's writes; "
                f"nothing was written. Take it out: sqlite3 '{self.path}' 'DROP TRIGGER {triggers[0]}'",
                value=str(self.path),
            )

    def _first(self) -> SQLiteConnection:
        end = time.monotonic() + OPEN_S
        while True:
            try:
                # Not asked for as the pool's writer: where making one fails, the library never frees that lock.
                return self._datastore.pool.get_connection()
            except (sqlite3.Error, PersistenceError) as error:
                # Switching a new file to WAL fails at once where another process is doing the same.
                if _code(error) not in _BUSY or time.monotonic() > end:
                    raise self._error(error) from error
                time.sleep(0.01)

    def _prepare(self) -> None:
        cursor = self._cursor
        try:
            names = {name for (name,) in cursor.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if "meta" in names:
                check_fence(self._schema(cursor))
                return
            cursor.execute(f"PRAGMA busy_timeout = {int(OPEN_S * 1000)}")
            with self._transaction(fenced=False):
                assert isinstance(self._recorder, Recorder)
                for statement in self._recorder.create_table_statements:
                    cursor.execute(statement)
                cursor.executemany(
                    "INSERT OR IGNORE INTO meta (name, value) VALUES (?, ?)",
                    [("schema", SCHEMA), ("store", uuid.uuid4().hex), ("made", int(time.time() * 1000))],
                )
                check_fence(self._schema(cursor))
            cursor.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        except sqlite3.Error as error:
            raise self._error(error) from error

    @staticmethod
    def _schema(cursor: sqlite3.Cursor) -> int | None:
        row = cursor.execute(sql.FENCE).fetchone()
        return row[0] if row and isinstance(row[0], int) else None

    # ------------------------------------------------------------------ writing

    def write(self, write: Write, hook: Hook | None) -> Head:
        stream, expected, rows_of, chunks = write
        with self._locked() as cursor, self._transaction():
            place = self._place(cursor, stream)
            if place is None:
                if expected:
                    raise Conflict(stream, expected, 0)
                cursor.execute("INSERT INTO streams (id) VALUES (?)", (stream,))
                place = Place(str(cursor.lastrowid), 0, bytes(32), head_seal(stream, 0, bytes(32)), 0)
            check_head(stream, expected, place)
            rows, digest = rows_of(place.digest)
            key, version = place.key, rows[-1][0]
            cursor.executemany(sql.INSERT_EVENT, [(key, number, tag, state) for number, tag, state in rows])
            if chunks:
                cursor.executemany(sql.INSERT_CHUNK, chunks)
            cursor.execute(sql.SET_HEAD, (int(key), version, digest, head_seal(stream, version, digest)))
            if hook is not None:
                hook("inside")
        return Head(stream, version, digest)

    def put_snapshot(self, stream: str, form: str, snapshot: Snapshot) -> None:
        with self._locked() as cursor, self._transaction():
            place = self._place(cursor, stream)
            if place is None:
                raise InputError("there is no such stream", value=stream, where="stream")
            cursor.execute(sql.PUT_SNAPSHOT, (int(place.key), form, *snapshot))

    def move(self, move: Move) -> None:
        with self._locked() as cursor, self._transaction():
            place = self._place(cursor, move.stream)
            if place is None or place.version != move.seen:
                raise Conflict(move.stream, move.seen, place.version if place else 0)
            cursor.execute(
                "INSERT INTO repairs (at, stream, note, lost) VALUES (?, ?, ?, ?)",
                (move.at, move.stream, move.note, int(move.lost)),
            )
            if move.lost:
                aside = f"{LOST}{cursor.lastrowid}:{move.key}"
                cursor.execute(
                    "UPDATE stored_events SET originator_id = ? WHERE originator_id = ? AND originator_version > ?",
                    (aside, move.key, move.version),
                )
            seal = head_seal(move.stream, move.version, move.digest)
            cursor.execute(sql.SET_HEAD, (int(move.key), move.version, move.digest, seal))

    @contextlib.contextmanager
    def loading(self) -> Iterator[sqlite3.Cursor]:
        """Hold one write transaction for filling a fresh store (``copying``)."""
        with self._locked() as cursor, self._transaction():
            yield cursor

    @staticmethod
    def load_head(cursor: sqlite3.Cursor, key: int, version: int, digest: bytes, seal: bytes) -> None:
        """Write a head as it stands in another store."""
        cursor.execute(sql.SET_HEAD, (key, version, digest, seal))

    @staticmethod
    def load_events(cursor: sqlite3.Cursor, key: int, rows: Sequence[Row]) -> None:
        """Write events as they stand in another store."""
        cursor.executemany(sql.INSERT_EVENT, [(str(key), number, tag, state) for number, tag, state in rows])

    @staticmethod
    def load_chunks(cursor: sqlite3.Cursor, chunks: Sequence[tuple[bytes, bytes]]) -> None:
        """Write chunks as they stand in another store."""
        cursor.executemany(sql.INSERT_CHUNK, chunks)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[sqlite3.Cursor]:
        began = time.monotonic()
        if not self._lock.acquire(timeout=BUSY_MS / 1000):
            raise _busy("this process")
        try:
            if self._closed:
                raise StoreUnavailable("the store is closed", value=str(self.path))
            left = BUSY_MS - int((time.monotonic() - began) * 1000)
            if left < BUSY_MS - 20:
                # What another thread took of the wait is not to be had a second time from another process.
                self._cursor.execute(f"PRAGMA busy_timeout = {max(left, 1)}")
                try:
                    yield self._cursor
                finally:
                    self._cursor.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
            else:
                yield self._cursor
        except sqlite3.Error as error:
            raise self._error(error) from error
        finally:
            self._lock.release()

    @contextlib.contextmanager
    def _transaction(self, *, fenced: bool = True) -> Iterator[None]:
        cursor = self._cursor
        cursor.execute("BEGIN IMMEDIATE")
        try:
            if fenced:
                check_fence(self._schema(cursor))
            yield
        except BaseException:
            self._undo()
            raise
        try:
            cursor.execute("COMMIT")
        except sqlite3.Error as error:
            self._undo()
            if _code(error) in _BUSY:
                raise
            raise unknown_outcome(str(error)) from error

    def _undo(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            if self._cursor.connection.in_transaction:
                self._cursor.execute("ROLLBACK")

    # ------------------------------------------------------------------ reading

    @contextlib.contextmanager
    def _reader(self) -> Iterator[sqlite3.Cursor]:
        with self._idle:
            if self._closed:
                raise StoreUnavailable("the store is closed", value=str(self.path))
            self._reading += 1
        try:
            with self._datastore.get_connection(commit=False) as connection:
                cursor = connection.cursor().sqlite_cursor
                cursor.row_factory = None
                yield cursor
        except (sqlite3.Error, PersistenceError) as error:
            raise self._error(error) from error
        finally:
            with self._idle:
                self._reading -= 1
                self._idle.notify_all()

    def _all(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        with self._reader() as cursor:
            return cursor.execute(statement, parameters).fetchall()

    def _place(self, cursor: sqlite3.Cursor, stream: str) -> Place | None:
        row = cursor.execute(sql.PLACE, (stream,)).fetchone()
        if row is None:
            return None
        key, version, digest, seal, last = row
        return Place(str(key), -1 if version is None else version, digest or b"", seal or b"", last or 0)

    def place(self, stream: str) -> Place | None:
        with self._reader() as cursor:
            return self._place(cursor, stream)

    def streams(self) -> list[tuple[str, str]]:
        return [(str(key), name) for key, name in self._all("SELECT key, id FROM streams ORDER BY key")]

    def heads(self, prefix: str) -> list[Head]:
        return [Head(*row) for row in self._all(sql.HEADS, (prefix, prefix, prefix))]

    def rows(self, key: str, first: int, last: int, limit: int) -> list[Row]:
        return self._all(sql.ROWS, (key, first, last, limit))

    def stored(self, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        return dict(self._in(sql.bodies, digests))

    def present(self, digests: Sequence[bytes]) -> set[bytes]:
        # Asked at every append: the writer's page cache is warm, a reader's is emptied by each commit.
        if len(digests) <= sql.MANY and self._lock.acquire(blocking=False):
            try:
                if not self._closed:
                    return {row[0] for row in self._cursor.execute(sql.present(len(digests)), digests).fetchall()}
            except sqlite3.Error as error:
                raise self._error(error) from error
            finally:
                self._lock.release()
        return {row[0] for row in self._in(sql.present, digests)}

    def _in(self, statement: Callable[[int], str], digests: Sequence[bytes]) -> Iterator[Any]:
        for start in range(0, len(digests), sql.MANY):
            some = digests[start : start + sql.MANY]
            yield from self._all(statement(len(some)), some)

    def digests(self, after: bytes, limit: int) -> list[bytes]:
        return [row[0] for row in self._all(sql.DIGESTS, (after, limit))]

    def get_snapshot(self, stream: str, form: str) -> Snapshot | None:
        rows = self._all(sql.GET_SNAPSHOT, (stream, form))
        return Snapshot(*rows[0]) if rows else None

    def log(self, after: int, limit: int) -> list[tuple[int, str, int]]:
        return self._all(sql.LOG, (after, limit))

    def strays(self) -> list[tuple[str, str]]:
        found = [("event", key) for (key,) in self._all(sql.STRAY_EVENTS) if not key.startswith(LOST)]
        found += [("head", str(key)) for (key,) in self._all(sql.STRAY_HEADS)]
        # Rows are never deleted, and one writer at a time numbers them: here a gap is a removed row.
        for kind, table in (("gap", "stored_events"), ("name", "streams")):
            count, top = self._all(f"SELECT count(*), coalesce(max(rowid), 0) FROM {table}")[0]
            if count != top:
                found.append((kind, f"{top} were written, {count} are there"))
        return found

    def integrity(self) -> list[str]:
        return [text for (text,) in self._all("PRAGMA quick_check(20)") if text != "ok"]

    def backup(self, target: Path) -> None:
        with new_file(target):
            destination = sqlite3.connect(str(target))
            try:
                with self._reader() as cursor:
                    cursor.connection.backup(destination)
            finally:
                destination.close()

    def close(self) -> None:
        with self._lock:
            with self._idle:
                if self._closed:
                    return
                self._closed = True
                # Closing a connection while another thread reads from it ends the process, not the read.
                if not self._idle.wait_for(lambda: self._reading == 0, OPEN_S):
                    return
            self._cursor.close()
            self._datastore.pool.put_connection(self._writer)
            self._datastore.close()

    def _error(self, error: BaseException) -> StoreError:
        code = _code(error)
        if code in _BUSY:
            return _busy("another process")
        if code in _BROKEN or "malformed" in str(error) or "not a database" in str(error):
            return StoreDamaged(f"the store's file {self.path} is damaged or not a database: {error}; restore a backup")
        if code == sqlite3.SQLITE_PROTOCOL or _full_code(error) in _NO_LOCKS:
            return StoreUnavailable(
                f"the folder of the store does not lock files as SQLite needs it ({error}), as shared and network "
                "folders do not; put the store on a local disk",
                value=str(self.path),
            )
        if code == sqlite3.SQLITE_CONSTRAINT:
            return StoreDamaged(f"the store holds rows its heads do not know of: {error}; run `foldlog verify`")
        return StoreUnavailable(
            f"the store cannot be used: {error}; check the disk, the folder and its permissions", value=str(self.path)
        )


@contextlib.contextmanager
def new_file(target: Path) -> Iterator[None]:
    """Make ``target`` (mode 0600, it must not exist) and take it away again if what follows fails."""
    try:
        os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError as error:
        raise InputError(
            "the target of a backup exists already; nothing was written. Name a new file", value=str(target)
        ) from error
    except OSError as error:
        raise StoreUnavailable(f"the backup cannot be written: {error.strerror}", value=str(target)) from error
    try:
        yield
    except BaseException as error:
        for suffix in ("", "-wal", "-shm"):
            target.with_name(target.name + suffix).unlink(missing_ok=True)
        if isinstance(error, sqlite3.Error | OSError):
            raise StoreUnavailable(f"the backup cannot be written: {error}", value=str(target)) from error
        raise


def _code(error: BaseException) -> int:
    return _full_code(error) & 0xFF


def _full_code(error: BaseException) -> int:
    while error is not None and not isinstance(error, sqlite3.Error):
        if error.__cause__ is None:
            return 0
        error = error.__cause__
    code = getattr(error, "sqlite_errorcode", None)
    return code or 0


def _busy(who: str) -> StoreBusy:
    return StoreBusy(f"{who} held the store's write lock longer than {BUSY_MS} ms; nothing was stored. Try again")

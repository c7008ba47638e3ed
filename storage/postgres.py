"""The PostgreSQL store: the tables and pool of ``eventsourcing``, and a transaction of our own (convention 28).

The library's ``insert_events`` retries operational errors by itself, so bounds break and an unclear commit is repeated.
Here nothing is retried: the row lock of the stream's head serialises its writers, different streams do not wait for
each other, and every wait is bounded by ``SET LOCAL lock_timeout``. Positions are drawn before the commit and may have
gaps; ``log`` waits for the writers in flight before it answers, so a follower never passes one that commits late.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
from eventsourcing.persistence import PersistenceError
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore
from psycopg.conninfo import conninfo_to_dict

from ..domain.errors import (
    Conflict,
    InputError,
    OptionError,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreUnavailable,
)
from . import postgres_sql as sql
from .backend import LOST, Hook, Move, Place, Snapshot, Write, check_fence, check_head, unknown_outcome
from .codec import GENESIS, SCHEMA, Row, head_seal
from .copying import copy_store
from .protocol import BUSY_MS, Head

POOL = 16
CONNECT_S = 5.0
"""How long opening may wait for the server (seconds)."""

WAIT_S = 1.0
"""How long a call may wait for a free or a new connection (seconds): a remote server needs more than ``BUSY_MS``."""

Connection = psycopg.Connection[Any]


class PostgresBackend:
    """A ``Backend`` in one PostgreSQL database (schema ``public``)."""

    ask_from = 64 * 1024

    def __init__(self, url: str) -> None:
        """Open the database at ``url``, making the tables where there are none.

        Raises ``OptionError`` for a URL the driver cannot read, ``StoreUnavailable``, ``StoreNewer``.
        """
        try:
            options = {name: value for name, value in conninfo_to_dict(url).items() if value is not None}
        except psycopg.ProgrammingError as error:
            raise OptionError(
                f"the URL cannot be read ({error}); the form is postgresql://user@host:5432/database", where="url"
            ) from error
        self.url = _without_password(url, str(options.get("password", "")))
        self._closed = False
        first = {name: str(options.pop(name, "")) for name in ("dbname", "host", "port", "user", "password")}
        self._datastore = PostgresDatastore(
            first["dbname"],
            first["host"],
            first["port"],
            first["user"],
            first["password"],
            pool_size=1,
            max_overflow=POOL - 1,
            connect_timeout=CONNECT_S,
            originator_id_type="text",
        )
        # The library passes on five options only; sslmode and the like would be dropped without a word.
        self._datastore.pool.kwargs = {name: value for name, value in first.items() if value} | options
        try:
            self._prepare()
        except BaseException:
            self._datastore.close()
            raise
        # Opening may take its time; a pass that finds no connection may not.
        self._datastore.pool.timeout = WAIT_S

    def _prepare(self) -> None:
        with self._connection() as connection:
            if self._fenced(connection):
                return
            # Two programs may make the tables at once; the library's CREATE statements are not safe against that.
            connection.execute("SELECT pg_advisory_lock(%s)", (sql.MAKING,))
            try:
                if self._fenced(connection):
                    return
                # Made with the library's own recorder, on a second connection, as it commits by itself.
                PostgresApplicationRecorder(self._datastore).create_table()
                with connection.transaction():
                    for statement in sql.TABLES:
                        connection.execute(statement)
                    made = [
                        ("schema", str(SCHEMA)),
                        ("store", uuid.uuid4().hex),
                        ("made", str(int(time.time() * 1000))),
                    ]
                    connection.cursor().executemany("INSERT INTO foldlog_meta (name, value) VALUES (%s, %s)", made)
            finally:
                connection.execute("SELECT pg_advisory_unlock(%s)", (sql.MAKING,))

    @staticmethod
    def _fenced(connection: Connection) -> bool:
        row = connection.execute("SELECT to_regclass('public.foldlog_meta')").fetchone()
        if row is None or row[0] is None:
            return False
        check_fence(_schema(connection.execute(sql.FENCE).fetchone()))
        return True

    # ------------------------------------------------------------------ writing

    def write(self, write: Write, hook: Hook | None) -> Head:
        stream, expected = write.stream, write.expected
        with self._transaction(stream) as (connection, known):
            place = known or self._new(connection, stream, expected)
            check_head(stream, expected, place)
            rows, digest = write.rows(place.digest)
            key, version = place.key, rows[-1][0]
            events = [(key, number, tag.decode(), state) for number, tag, state in rows]
            # In order of digest: two writers that bring the same chunks then wait, and never for each other.
            chunks = sorted(write.chunks)
            while len(events) > sql.PAGE:
                connection.execute(*sql.insert_events(events[: sql.PAGE]))
                del events[: sql.PAGE]
            while len(chunks) > sql.PAGE:
                connection.execute(*sql.insert_chunks(chunks[: sql.PAGE]))
                del chunks[: sql.PAGE]
            head = (int(key), version, digest, head_seal(stream, version, digest))
            connection.execute(*sql.insert_all(events, chunks, head), prepare=True)
            if hook is not None:
                hook("inside")
        return Head(stream, version, digest)

    def _new(self, connection: Connection, stream: str, expected: int) -> Place:
        if expected:
            raise Conflict(stream, expected, 0)
        row = connection.execute(sql.NEW_STREAM, (stream,)).fetchone()
        if row is None:
            # Another writer made it while we waited for the unique index.
            place = self._place(connection, stream)
            raise Conflict(stream, expected, place.version if place else 0)
        return Place(str(row[0]), 0, GENESIS, head_seal(stream, 0, GENESIS), 0)

    def put_snapshot(self, stream: str, form: str, snapshot: Snapshot) -> None:
        with self._transaction(stream) as (connection, place):
            if place is None:
                raise InputError("there is no such stream", value=stream, where="stream")
            connection.execute(sql.PUT_SNAPSHOT, (int(place.key), form, *snapshot))

    def move(self, move: Move) -> None:
        with self._transaction(move.stream) as (connection, place):
            if place is None or place.version != move.seen:
                raise Conflict(move.stream, move.seen, place.version if place else 0)
            row = connection.execute(sql.REPAIR, (move.at, move.stream, move.note, move.lost)).fetchone()
            if move.lost and row is not None:
                aside = f"{LOST}{row[0]}:{move.key}"
                connection.execute(sql.ASIDE, (aside, move.key, move.version))
            seal = head_seal(move.stream, move.version, move.digest)
            connection.execute(sql.SET_HEAD, (int(move.key), move.version, move.digest, seal))

    @contextlib.contextmanager
    def _transaction(self, stream: str = "") -> Iterator[tuple[Connection, Place | None]]:
        """Begin in one round trip: bounded waits, the fence, and the stream's head locked and read."""
        with self._connection() as connection:
            try:
                with connection.pipeline():
                    connection.execute("BEGIN")
                    connection.execute(sql.BOUNDED)
                    found = connection.execute(
                        sql.LOCKED if stream else sql.FENCE, (stream,) if stream else None, prepare=True
                    )
                row = found.fetchone()
                if row is None and stream:
                    # A stream that is new, or that has lost its head.
                    row = connection.execute(sql.FENCE).fetchone()
                    place = self._place(connection, stream)
                else:
                    place = _read_place(row[1:]) if stream and row else None
                check_fence(_schema(row))
                yield connection, place
            except BaseException:
                with contextlib.suppress(psycopg.Error):
                    connection.execute("ROLLBACK")
                raise
            try:
                connection.execute("COMMIT")
            except psycopg.Error as error:
                raise unknown_outcome(str(error).strip()) from error

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Connection]:
        if self._closed:
            raise StoreUnavailable("the store is closed", value=self.url)
        try:
            with self._datastore.get_connection() as connection:
                yield connection
        except (psycopg.Error, PersistenceError) as error:
            raise self._error(error) from error

    # ------------------------------------------------------------------ reading

    def _all(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        with self._connection() as connection:
            return connection.execute(statement, parameters).fetchall()

    @staticmethod
    def _place(connection: Connection, stream: str) -> Place | None:
        return _read_place(connection.execute(sql.PLACE, (stream,), prepare=True).fetchone())

    def place(self, stream: str) -> Place | None:
        with self._connection() as connection:
            return self._place(connection, stream)

    def streams(self) -> list[tuple[str, str]]:
        return [(str(key), name) for key, name in self._all("SELECT key, id FROM foldlog_streams ORDER BY key")]

    def heads(self, prefix: str) -> list[Head]:
        return [Head(*row) for row in self._all(sql.HEADS, (prefix, prefix))]

    def rows(self, key: str, first: int, last: int, limit: int) -> list[Row]:
        return [
            (version, (tag or "").encode(), state or b"")
            for version, tag, state in self._all(sql.ROWS, (key, first, last, limit))
        ]

    def stored(self, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        return dict(self._all(sql.BODIES, (list(digests),)))

    def present(self, digests: Sequence[bytes]) -> set[bytes]:
        return {row[0] for row in self._all(sql.PRESENT, (list(digests),))}

    def digests(self, after: bytes, limit: int) -> list[bytes]:
        return [row[0] for row in self._all(sql.DIGESTS, (after, limit))]

    def get_snapshot(self, stream: str, form: str) -> Snapshot | None:
        rows = self._all(sql.GET_SNAPSHOT, (stream, form))
        return Snapshot(*rows[0]) if rows else None

    def log(self, after: int, limit: int) -> list[tuple[int, str, int]]:
        if not self._all(sql.NEWER, (after,)):
            return []
        with self._transaction() as (connection, _):
            # SHARE waits for every writer in flight (they hold ROW EXCLUSIVE) and lets none begin until we have read.
            connection.execute("LOCK TABLE stored_events IN SHARE MODE")
            return connection.execute(sql.LOG, (after, limit)).fetchall()

    def strays(self) -> list[tuple[str, str]]:
        found = [("event", key) for (key,) in self._all(sql.STRAY_EVENTS) if not key.startswith(LOST)]
        return found + [("head", str(key)) for (key,) in self._all(sql.STRAY_HEADS)]

    def integrity(self) -> list[str]:
        return []

    def backup(self, target: Path) -> None:
        copy_store(self, target)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._datastore.close()

    def _error(self, error: BaseException) -> StoreError:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, psycopg.Error):
            cause = cause.__cause__
        text = str(error).strip()
        if isinstance(cause, psycopg.errors.LockNotAvailable | psycopg.errors.DeadlockDetected):
            return StoreBusy(
                f"another process held a lock of the store longer than {BUSY_MS} ms; nothing was stored. Try again"
            )
        if isinstance(cause, psycopg.IntegrityError):
            return StoreDamaged(f"the store holds rows its heads do not know of: {text}; run `foldlog verify`")
        # A server that was restarted leaves dead connections in the pool: let the next call find none of them.
        with contextlib.suppress(Exception):
            self._datastore.pool.check()
        failed = StoreUnavailable(f"the PostgreSQL store cannot be used: {text}; check the server", value=self.url)
        failed.recoverable = isinstance(cause, psycopg.OperationalError)
        return failed


def _read_place(row: Any) -> Place | None:
    if row is None:
        return None
    key, version, digest, seal, last = row
    return Place(str(key), -1 if version is None else version, digest or b"", seal or b"", last or 0)


def _schema(row: Any) -> int | None:
    try:
        return int(row[0])
    except (TypeError, ValueError):
        return None


def _without_password(url: str, password: str) -> str:
    return url.replace(f":{password}@", "@", 1) if password else url

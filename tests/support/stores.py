"""The three stores as tests handle them: opening, and damaging what is stored behind the program's back."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import psycopg
from eventsourcing.persistence import StoredEvent

from foldlog.storage.backend import Hook
from foldlog.storage.memory import MemoryBackend
from foldlog.storage.store import Store
from foldlog.storage.stores import open_store

TABLES = ("meta", "streams", "heads", "chunks", "snapshots")
Change = Callable[[bytes], bytes]


class Kit(Protocol):
    """One store under test. ``open`` may be called several times: all see the same data."""

    def open(self, hook: Hook | None = None) -> Store: ...
    def alter_state(self, stream: str, version: int, change: Change) -> None: ...
    def alter_topic(self, stream: str, version: int, topic: str) -> None: ...
    def remove(self, stream: str, first: int, last: int) -> None: ...
    def swap(self, stream: str, one: int, other: int) -> None: ...
    def alter_head(self, stream: str, version: int | None = None, digest: bytes | None = None) -> None: ...
    def write_head(self, stream: str, version: int, digest: bytes, seal: bytes) -> None: ...
    def remove_head(self, stream: str) -> None: ...
    def alter_chunk(self, digest: bytes, change: Change) -> None: ...
    def remove_chunk(self, digest: bytes) -> None: ...
    def chunk(self, digest: bytes) -> bytes: ...
    def alter_snapshot(self, change: Change) -> None: ...
    def fence(self, schema: int) -> None: ...
    def close(self) -> None: ...


class SqlKit:
    """Damage by statements; ``t`` says how the tables are called."""

    t: Mapping[str, str]

    def __init__(self, url: str) -> None:
        self.url = url
        self.opened: list[Store] = []

    def open(self, hook: Hook | None = None) -> Store:
        self.opened.append(open_store(self.url, hook))
        return self.opened[-1]

    def close(self) -> None:
        for store in self.opened:
            store.close()

    def run(self, statement: str, *parameters: Any) -> list[Any]:
        raise NotImplementedError

    def _key(self, stream: str) -> int:
        return int(self.run(f"SELECT key FROM {self.t['streams']} WHERE id = ?", stream)[0][0])

    def alter_state(self, stream: str, version: int, change: Change) -> None:
        key = str(self._key(stream))
        where = "WHERE originator_id = ? AND originator_version = ?"
        old = self.run(f"SELECT state FROM stored_events {where}", key, version)[0][0]
        self.run(f"UPDATE stored_events SET state = ? {where}", change(bytes(old)), key, version)

    def alter_topic(self, stream: str, version: int, topic: str) -> None:
        self.run(
            "UPDATE stored_events SET topic = ? WHERE originator_id = ? AND originator_version = ?",
            topic,
            str(self._key(stream)),
            version,
        )

    def remove(self, stream: str, first: int, last: int) -> None:
        self.run(
            "DELETE FROM stored_events WHERE originator_id = ? AND originator_version BETWEEN ? AND ?",
            str(self._key(stream)),
            first,
            last,
        )

    def swap(self, stream: str, one: int, other: int) -> None:
        key = str(self._key(stream))
        move = "UPDATE stored_events SET originator_version = ? WHERE originator_id = ? AND originator_version = ?"
        for new, old in ((-1, one), (one, other), (other, -1)):
            self.run(move, new, key, old)

    def alter_head(self, stream: str, version: int | None = None, digest: bytes | None = None) -> None:
        key = self._key(stream)
        if version is not None:
            self.run(f"UPDATE {self.t['heads']} SET version = ? WHERE key = ?", version, key)
        if digest is not None:
            self.run(f"UPDATE {self.t['heads']} SET digest = ? WHERE key = ?", digest, key)

    def write_head(self, stream: str, version: int, digest: bytes, seal: bytes) -> None:
        key = self._key(stream)
        self.run(
            f"UPDATE {self.t['heads']} SET version = ?, digest = ?, seal = ? WHERE key = ?", version, digest, seal, key
        )

    def remove_head(self, stream: str) -> None:
        self.run(f"DELETE FROM {self.t['heads']} WHERE key = ?", self._key(stream))

    def alter_chunk(self, digest: bytes, change: Change) -> None:
        self.run(f"UPDATE {self.t['chunks']} SET body = ? WHERE digest = ?", change(self.chunk(digest)), digest)

    def remove_chunk(self, digest: bytes) -> None:
        self.run(f"DELETE FROM {self.t['chunks']} WHERE digest = ?", digest)

    def chunk(self, digest: bytes) -> bytes:
        return bytes(self.run(f"SELECT body FROM {self.t['chunks']} WHERE digest = ?", digest)[0][0])

    def alter_snapshot(self, change: Change) -> None:
        old = self.run(f"SELECT body FROM {self.t['snapshots']}")[0][0]
        self.run(f"UPDATE {self.t['snapshots']} SET body = ?", change(bytes(old)))

    def fence(self, schema: int) -> None:
        self.run(f"UPDATE {self.t['meta']} SET value = ? WHERE name = 'schema'", self._schema(schema))

    @staticmethod
    def _schema(schema: int) -> Any:
        return schema


class SQLiteKit(SqlKit):
    """A file."""

    t = MappingProxyType({name: name for name in TABLES})

    def __init__(self, path: Path) -> None:
        super().__init__(f"sqlite:///{path}")
        self.path = path

    def run(self, statement: str, *parameters: Any) -> list[Any]:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            return connection.execute(statement, parameters).fetchall()


class PostgresKit(SqlKit):
    """A database of a real server."""

    t = MappingProxyType({name: "foldlog_" + name for name in TABLES})

    def run(self, statement: str, *parameters: Any) -> list[Any]:
        with psycopg.connect(self.url) as connection:
            cursor = connection.execute(statement.replace("?", "%s"), parameters)
            return cursor.fetchall() if cursor.description else []

    @staticmethod
    def _schema(schema: int) -> Any:
        return str(schema)


class MemoryKit:
    """One backend in memory; every ``open`` is another door to it."""

    def __init__(self) -> None:
        self.backend = MemoryBackend()

    def open(self, hook: Hook | None = None) -> Store:
        return Store(self.backend, hook)

    def _at(self, stream: str, version: int) -> tuple[int, StoredEvent]:
        position = self.backend.recorder.versions(self.backend.keys[stream])[version]
        return position, self.backend.recorder.event(position)

    def _put(self, position: int, key: str, version: int, topic: str, state: bytes) -> None:
        self.backend.recorder.replace(position, StoredEvent(key, version, topic, state))

    def alter_state(self, stream: str, version: int, change: Change) -> None:
        position, old = self._at(stream, version)
        self._put(position, str(old.originator_id), version, old.topic, change(old.state))

    def alter_topic(self, stream: str, version: int, topic: str) -> None:
        position, old = self._at(stream, version)
        self._put(position, str(old.originator_id), version, topic, old.state)

    def remove(self, stream: str, first: int, last: int) -> None:
        versions = self.backend.recorder.versions(self.backend.keys[stream])
        for version in range(first, last + 1):
            versions.pop(version, None)

    def swap(self, stream: str, one: int, other: int) -> None:
        (place, first), (there, second) = self._at(stream, one), self._at(stream, other)
        key = str(first.originator_id)
        self._put(there, key, -1, second.topic, second.state)
        self._put(place, key, other, first.topic, first.state)
        self._put(there, key, one, second.topic, second.state)

    def alter_head(self, stream: str, version: int | None = None, digest: bytes | None = None) -> None:
        key = self.backend.keys[stream]
        old = self.backend.ends[key]
        self.backend.ends[key] = (old[0] if version is None else version, digest or old[1], old[2])

    def write_head(self, stream: str, version: int, digest: bytes, seal: bytes) -> None:
        self.backend.ends[self.backend.keys[stream]] = version, digest, seal

    def remove_head(self, stream: str) -> None:
        del self.backend.ends[self.backend.keys[stream]]

    def alter_chunk(self, digest: bytes, change: Change) -> None:
        self.backend.bodies[digest] = change(self.backend.bodies[digest])

    def remove_chunk(self, digest: bytes) -> None:
        del self.backend.bodies[digest]

    def chunk(self, digest: bytes) -> bytes:
        return self.backend.bodies[digest]

    def alter_snapshot(self, change: Change) -> None:
        for name, old in self.backend.snapshots.items():
            self.backend.snapshots[name] = old._replace(body=change(old.body))

    def fence(self, schema: int) -> None:
        self.backend.meta["schema"] = schema

    def close(self) -> None:
        self.backend.close()

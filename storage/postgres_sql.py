"""The statements of the PostgreSQL store. ``stored_events`` is the library's; ``notification_id`` is the position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .protocol import BUSY_MS

MAKING = 0x666F6C64
"""The advisory lock that is held while tables are made."""

PAGE = 200
"""Rows of one INSERT: a statement has at most 65,535 parameters."""
TABLES = (
    "CREATE TABLE IF NOT EXISTS foldlog_meta (name text PRIMARY KEY, value text NOT NULL)",
    (
        "CREATE TABLE IF NOT EXISTS foldlog_streams (key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
        'id text COLLATE "C" NOT NULL UNIQUE)'
    ),
    (
        "CREATE TABLE IF NOT EXISTS foldlog_heads (key bigint PRIMARY KEY, version bigint NOT NULL, "
        "digest bytea NOT NULL, seal bytea NOT NULL) WITH (fillfactor = 50)"
    ),
    "CREATE TABLE IF NOT EXISTS foldlog_chunks (digest bytea PRIMARY KEY, body bytea NOT NULL)",
    # Bodies come compressed: trying again would only cost time.
    "ALTER TABLE foldlog_chunks ALTER COLUMN body SET STORAGE EXTERNAL",
    (
        "CREATE TABLE IF NOT EXISTS foldlog_snapshots (key bigint NOT NULL, form text NOT NULL, "
        "version bigint NOT NULL, digest bytea NOT NULL, seal bytea NOT NULL, body bytea NOT NULL, "
        "PRIMARY KEY (key, form))"
    ),
    (
        "CREATE TABLE IF NOT EXISTS foldlog_repairs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
        "at bigint NOT NULL, stream text NOT NULL, note text NOT NULL, lost boolean NOT NULL)"
    ),
)

BOUNDED = f"SET LOCAL lock_timeout = '{BUSY_MS}ms'"
FENCE = "SELECT value FROM foldlog_meta WHERE name = 'schema'"

PLACE = (
    "SELECT s.key, h.version, h.digest, h.seal, "
    "(SELECT max(e.originator_version) FROM stored_events e WHERE e.originator_id = s.key::text) "
    "FROM foldlog_streams s LEFT JOIN foldlog_heads h ON h.key = s.key WHERE s.id = %s"
)
# The lock waits for the writer before us and then reads what it left. Events behind the head are not looked for here:
# the unique key of ``stored_events`` refuses to write over them.
LOCKED = (
    "SELECT (SELECT value FROM foldlog_meta WHERE name = 'schema'), h.key, h.version, h.digest, h.seal, h.version "
    "FROM foldlog_heads h WHERE h.key = (SELECT key FROM foldlog_streams WHERE id = %s) FOR UPDATE"
)

HEADS = (
    "SELECT s.id, h.version, h.digest FROM foldlog_streams s JOIN foldlog_heads h ON h.key = s.key "
    "WHERE s.id >= %s AND starts_with(s.id, %s)"
)
ROWS = (
    "SELECT originator_version, topic, state FROM stored_events "
    "WHERE originator_id = %s AND originator_version BETWEEN %s AND %s ORDER BY originator_version LIMIT %s"
)
NEW_STREAM = "INSERT INTO foldlog_streams (id) VALUES (%s) ON CONFLICT (id) DO NOTHING RETURNING key"
SET_HEAD = (
    "INSERT INTO foldlog_heads (key, version, digest, seal) VALUES (%s, %s, %s, %s) "
    "ON CONFLICT (key) DO UPDATE SET version = excluded.version, digest = excluded.digest, seal = excluded.seal"
)
PUT_SNAPSHOT = (
    "INSERT INTO foldlog_snapshots (key, form, version, digest, seal, body) VALUES (%s, %s, %s, %s, %s, %s) "
    "ON CONFLICT (key, form) DO UPDATE SET version = excluded.version, digest = excluded.digest, "
    "seal = excluded.seal, body = excluded.body"
)
GET_SNAPSHOT = (
    "SELECT n.version, n.digest, n.seal, n.body FROM foldlog_snapshots n JOIN foldlog_streams s ON s.key = n.key "
    "WHERE s.id = %s AND n.form = %s"
)
REPAIR = "INSERT INTO foldlog_repairs (at, stream, note, lost) VALUES (%s, %s, %s, %s) RETURNING id"
ASIDE = "UPDATE stored_events SET originator_id = %s WHERE originator_id = %s AND originator_version > %s"
BODIES = "SELECT digest, body FROM foldlog_chunks WHERE digest = ANY(%s)"
PRESENT = "SELECT digest FROM foldlog_chunks WHERE digest = ANY(%s)"
DIGESTS = "SELECT digest FROM foldlog_chunks WHERE digest > %s ORDER BY digest LIMIT %s"
NEWER = "SELECT 1 FROM stored_events WHERE notification_id > %s LIMIT 1"
LOG = (
    "SELECT notification_id, originator_id, originator_version FROM stored_events WHERE notification_id > %s "
    "ORDER BY notification_id LIMIT %s"
)
STRAY_EVENTS = (
    "SELECT DISTINCT e.originator_id FROM stored_events e "
    "WHERE NOT EXISTS (SELECT 1 FROM foldlog_streams s WHERE s.key::text = e.originator_id)"
)
STRAY_HEADS = "SELECT h.key FROM foldlog_heads h WHERE NOT EXISTS (SELECT 1 FROM foldlog_streams s WHERE s.key = h.key)"


def insert_events(rows: Sequence[tuple[Any, ...]]) -> tuple[str, list[Any]]:
    """Return one statement that inserts ``rows``, so that several events cost one round trip, and its parameters."""
    values = ", ".join(["(%s, %s, %s, %s)"] * len(rows))
    statement = f"INSERT INTO stored_events (originator_id, originator_version, topic, state) VALUES {values}"
    return statement, [value for row in rows for value in row]


def insert_chunks(chunks: Sequence[tuple[bytes, bytes]]) -> tuple[str, list[Any]]:
    """Return one statement that inserts ``chunks`` (in this order) where they are not there yet, and its parameters."""
    values = ", ".join(["(%s, %s)"] * len(chunks))
    statement = f"INSERT INTO foldlog_chunks (digest, body) VALUES {values} ON CONFLICT (digest) DO NOTHING"
    return statement, [value for chunk in chunks for value in chunk]


def insert_all(
    events: Sequence[tuple[Any, ...]], chunks: Sequence[tuple[bytes, bytes]], head: tuple[Any, ...]
) -> tuple[str, list[Any]]:
    """Return one statement that writes events, chunks and the head in one round trip, and its parameters."""
    parts, parameters = list[str](), list[Any]()
    for name, (statement, values) in (
        ("e", insert_events(events) if events else ("", [])),
        ("c", insert_chunks(chunks) if chunks else ("", [])),
    ):
        if statement:
            parts.append(f"{name} AS ({statement})")
            parameters += values
    front = f"WITH {', '.join(parts)} " if parts else ""
    return front + SET_HEAD, [*parameters, *head]

"""The statements of the SQLite store. ``stored_events`` is the library's table; its rowid is an event's position."""

from __future__ import annotations

from .protocol import BUSY_MS

PRAGMAS = (
    f"PRAGMA busy_timeout = {BUSY_MS}",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = OFF",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -8000",
    # Fewer, larger checkpoints: the append that pays for one is then outside the 99th percentile.
    "PRAGMA wal_autocheckpoint = 4000",
)

TABLES = (
    "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS streams (key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE)",
    (
        "CREATE TABLE IF NOT EXISTS heads (key INTEGER PRIMARY KEY, version INTEGER NOT NULL, digest BLOB NOT NULL, "
        "seal BLOB NOT NULL)"
    ),
    "CREATE TABLE IF NOT EXISTS chunks (digest BLOB PRIMARY KEY, body BLOB NOT NULL)",
    (
        "CREATE TABLE IF NOT EXISTS snapshots (key INTEGER NOT NULL, form TEXT NOT NULL, version INTEGER NOT NULL, "
        "digest BLOB NOT NULL, seal BLOB NOT NULL, body BLOB NOT NULL, PRIMARY KEY (key, form))"
    ),
    (
        "CREATE TABLE IF NOT EXISTS repairs (id INTEGER PRIMARY KEY, at INTEGER NOT NULL, stream TEXT NOT NULL, "
        "note TEXT NOT NULL, lost INTEGER NOT NULL)"
    ),
)

FENCE = "SELECT value FROM meta WHERE name = 'schema'"

PLACE = (
    "SELECT s.key, h.version, CAST(h.digest AS BLOB), CAST(h.seal AS BLOB), "
    "(SELECT max(e.originator_version) FROM stored_events e WHERE e.originator_id = CAST(s.key AS TEXT)) "
    "FROM streams s LEFT JOIN heads h ON h.key = s.key WHERE s.id = ?"
)

HEADS = (
    "SELECT s.id, h.version, CAST(h.digest AS BLOB) FROM streams s JOIN heads h ON h.key = s.key "
    "WHERE s.id >= ? AND substr(s.id, 1, length(?)) = ?"
)

# Topic and state are cast: an altered column of another type, or text that is no text, must not stop the reader itself.
ROWS = (
    "SELECT originator_version, CAST(topic AS BLOB), CAST(state AS BLOB) FROM stored_events "
    "WHERE originator_id = ? AND originator_version BETWEEN ? AND ? ORDER BY originator_version LIMIT ?"
)

INSERT_EVENT = (
    "INSERT INTO stored_events (originator_id, originator_version, topic, state) VALUES (?, ?, CAST(? AS TEXT), ?)"
)
INSERT_CHUNK = "INSERT OR IGNORE INTO chunks (digest, body) VALUES (?, ?)"
SET_HEAD = "INSERT OR REPLACE INTO heads (key, version, digest, seal) VALUES (?, ?, ?, ?)"

PUT_SNAPSHOT = "INSERT OR REPLACE INTO snapshots (key, form, version, digest, seal, body) VALUES (?, ?, ?, ?, ?, ?)"
GET_SNAPSHOT = (
    "SELECT n.version, CAST(n.digest AS BLOB), CAST(n.seal AS BLOB), CAST(n.body AS BLOB) "
    "FROM snapshots n JOIN streams s ON s.key = n.key WHERE s.id = ? AND n.form = ?"
)

LOG = "SELECT rowid, originator_id, originator_version FROM stored_events WHERE rowid > ? ORDER BY rowid LIMIT ?"

MANY = 500
DIGESTS = "SELECT CAST(digest AS BLOB) FROM chunks WHERE digest > ? ORDER BY digest LIMIT ?"


def bodies(count: int) -> str:
    """Return the statement that reads ``count`` chunks."""
    return f"SELECT CAST(digest AS BLOB), CAST(body AS BLOB) FROM chunks WHERE digest IN ({_marks(count)})"


def present(count: int) -> str:
    """Return the statement that finds which of ``count`` chunks are there."""
    return f"SELECT digest FROM chunks WHERE digest IN ({_marks(count)})"


def _marks(count: int) -> str:
    return ",".join("?" * count)


STRAY_EVENTS = (
    "SELECT DISTINCT e.originator_id FROM stored_events e "
    "WHERE NOT EXISTS (SELECT 1 FROM streams s WHERE CAST(s.key AS TEXT) = e.originator_id)"
)
STRAY_HEADS = "SELECT h.key FROM heads h WHERE NOT EXISTS (SELECT 1 FROM streams s WHERE s.key = h.key)"

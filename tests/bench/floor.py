"""The floor of a pass: what any honest way of doing it must spend (``design.md`` 8).

Tokenising, hashing and compressing the same new bytes, and one durable append of equally many bytes through a bare
``sqlite3`` connection; measured on the very bytes of the pass, right behind it, so noise hits both alike.
"""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from pathlib import Path
from time import perf_counter

from foldlog.adapters.models.tokens import tokenizer


class Floor:
    """A bare durable log and the loop over new bytes."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=FULL")
        self.connection.execute("CREATE TABLE log (n INTEGER PRIMARY KEY, state BLOB)")
        self.count = tokenizer()

    def measure(self, raws: list[bytes], texts: list[str]) -> float:
        """Return the seconds the floor takes for these messages, whose tokenised texts are ``texts``."""
        begin = perf_counter()
        for text in texts:
            self.count(text)
        packed = []
        for raw in raws:
            hashlib.sha256(raw).digest()
            packed.append(zlib.compress(raw, 6))
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute("INSERT INTO log (state) VALUES (?)", (b"".join(packed),))
        self.connection.execute("COMMIT")
        return perf_counter() - begin

"""Writing a store of any kind into a fresh SQLite file, row by row: the chain is copied, not made again."""

from __future__ import annotations

import sys
from pathlib import Path

from .backend import Backend
from .codec import Row, head_seal

PAGE = 1000
CHUNK_PAGE = 64


def copy_store(source: Backend, target: Path) -> None:
    """Copy streams, events, heads and chunks of a hot ``source`` to ``target``, which must not exist.

    The heads are read first, in one statement, and events only up to them; chunks are read last, so every chunk an
    event names is there. Events keep their order over the whole store. Snapshots are left out: they are made again.
    """
    from .sqlite import SQLiteBackend, new_file  # a store in memory needs no SQLite until it is copied

    with new_file(target):
        ends = {head.stream: head for head in source.heads("")}
        names = [(key, name) for key, name in source.streams() if name in ends]
        owner = dict(names)
        copy = SQLiteBackend(target)
        try:
            with copy.loading() as cursor:
                fresh = {key: number for number, (key, _) in enumerate(names, 1)}
                cursor.executemany("INSERT INTO streams (key, id) VALUES (?, ?)", [(fresh[k], n) for k, n in names])
                for key, name in names:
                    head = ends[name]
                    seal = head_seal(name, head.version, head.digest)
                    copy.load_head(cursor, fresh[key], head.version, head.digest, seal)
                after, left = 0, sum(head.version for head in ends.values())
                # Counted down: a source that goes on growing would otherwise never come to an end.
                while left > 0 and (page := source.log(after, PAGE)):
                    wanted = [(k, v) for _, k, v in page if k in owner and v <= ends[owner[k]].version]
                    rows = _rows(source, wanted)
                    for key, version in wanted:
                        copy.load_events(cursor, fresh[key], [rows[key, version]])
                    left -= len(wanted)
                    after = page[-1][0]
                # Listed once, behind the heads: all these name is there, and a growing source is not waited for.
                digests = source.digests(b"", sys.maxsize)
                for at in range(0, len(digests), CHUNK_PAGE):
                    copy.load_chunks(cursor, list(source.stored(digests[at : at + CHUNK_PAGE]).items()))
        finally:
            copy.close()


def _rows(source: Backend, wanted: list[tuple[str, int]]) -> dict[tuple[str, int], Row]:
    spans: dict[str, tuple[int, int]] = {}
    for key, version in wanted:
        first, last = spans.get(key, (version, version))
        spans[key] = min(first, version), max(last, version)
    return {
        (key, row[0]): row
        for key, (first, last) in spans.items()
        for row in source.rows(key, first, last, last - first + 1)
    }

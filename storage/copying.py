"""Writing a store of any kind into a fresh SQLite file, row by row: the chain is copied, not made again."""

from __future__ import annotations

from pathlib import Path

from .backend import Backend
from .codec import head_seal

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
                after = 0
                while page := source.log(after, PAGE):
                    for position, key, version in page:
                        if key in owner and version <= ends[owner[key]].version:
                            copy.load_events(cursor, fresh[key], source.rows(key, version, version, 1))
                        after = position
                mark = b""
                while digests := source.digests(mark, CHUNK_PAGE):
                    copy.load_chunks(cursor, list(source.stored(digests).items()))
                    mark = digests[-1]
        finally:
            copy.close()

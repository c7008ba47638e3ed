"""Stored logs of released event versions as plain files: how one is written and how it is read back.

A line is a JSON object: ``chunk`` (base64), an event (``stream``, ``version``, ``tag``, ``body`` in base64: just what a
store chains), a head (``stream``, ``head``, ``digest``) or a request (``stream``, ``pass``, ``version``, ``digest``,
``sha256`` over all its bytes). Nothing in it depends on a kind of store.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from foldlog.domain import events as ev
from foldlog.domain.paths import path_of
from foldlog.domain.state import State
from foldlog.projections import request
from foldlog.projections.fold import Folded, take
from foldlog.projections.view import View
from foldlog.storage.codec import encode_event, make_codec
from foldlog.storage.protocol import Chunk, Log
from foldlog.storage.references import named_chunks

FOLDER = Path(__file__).resolve().parents[1] / "golden"
CHANGED = (
    "\nA stored log of a released version is no longer what it was. Logs like it lie in people's data folders and "
    "cannot be changed.\nBefore the first release: settle the events, then `python tests/golden/make.py --write`, and "
    "read the difference."
    "\nAfter it: never write this file again. Append fields with defaults, give a new meaning a new tag, give new "
    "rendering a new wire version; then add a file for the new version beside this one."
)
SENT = (ev.PassDeferred, ev.ConversationRebuilt, ev.HistoryRefreshed, ev.BaselineFolded, ev.LastGoodReplayed)


class Golden(NamedTuple):
    """A file read back. Events: (version, tag, body) by stream, in the order of the file."""

    chunks: tuple[bytes, ...]
    events: dict[str, list[tuple[int, str, bytes]]]
    heads: dict[str, tuple[int, str]]
    requests: dict[str, list[tuple[int, int, str, str]]]


def read(path: Path) -> Golden:
    found = Golden((), {}, {}, {})
    chunks: list[bytes] = []
    for line in path.read_text(encoding="ascii").splitlines():
        one = json.loads(line)
        if "chunk" in one:
            chunks.append(base64.b64decode(one["chunk"]))
        elif "tag" in one:
            event = (one["version"], one["tag"], base64.b64decode(one["body"]))
            found.events.setdefault(one["stream"], []).append(event)
        elif "head" in one:
            found.heads[one["stream"]] = (one["head"], one["digest"])
        else:
            entry = (one["pass"], one["version"], one["digest"], one["sha256"])
            found.requests.setdefault(one["stream"], []).append(entry)
    return found._replace(chunks=tuple(chunks))


def lines(log: Log, streams: Iterable[str]) -> Iterator[str]:
    """Yield the file of these streams, parents of forks first."""
    codec = make_codec()
    digests: dict[bytes, None] = {}
    told: list[dict[str, Any]] = []
    for stream in streams:
        for stored in log.read(stream):
            digests.update(dict.fromkeys(named_chunks(stored.event)))
            body = encode_event(codec, stored.event, stream)
            told.append(
                {
                    "stream": stream,
                    "version": stored.version,
                    "tag": body.tag.decode(),
                    "body": base64.b64encode(body.plain).decode(),
                }
            )
        head = log.head(stream)
        assert head is not None
        told.append({"stream": stream, "head": head.version, "digest": head.digest.hex()})
        if stream.startswith("session/"):
            for number, version, digest, sha in rendered(log, stream):
                told.append({"stream": stream, "pass": number, "version": version, "digest": digest, "sha256": sha})
    for data in log.chunks(sorted(digests)):
        yield json.dumps({"chunk": base64.b64encode(data).decode()}, separators=(",", ":"))
    for one in told:
        yield json.dumps(one, separators=(",", ":"))


def rendered(log: Log, stream: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield (pass, version, digest, SHA-256 over every byte) of each request, folded and projected from the log."""
    folded = Folded(State(stream=stream), View())
    for stored in log.read(stream):
        take(log, folded, stored, snapshots=False)
        if isinstance(stored.event, SENT):
            built = project(folded, stored.event, log)
            yield stored.event.number, stored.version, built.digest.hex(), whole(built)


def project(folded: Folded, event: Any, log: Log, more: dict[bytes, bytes] | None = None) -> request.Built:
    """Render the request of ``event``, which both folds have just taken in."""

    def text(digest: bytes) -> bytes:
        return more[digest] if more and digest in more else log.chunks([digest])[0]

    state = folded.state
    path = path_of(state, event)
    return request.build(request.beside(folded.view, event), path, lambda m: text(state.node(m).message.body), text)


def whole(built: request.Built) -> str:
    """Return the SHA-256 over all bytes of a request, each piece behind its length."""
    digest = sha256()
    for piece in (built.system, built.tools, *built.messages):
        digest.update(len(piece).to_bytes(8, "big") + piece)
    return digest.hexdigest()


def store(golden: Golden, log: Log) -> None:
    """Append everything in a golden file to an empty log."""
    decoder = make_codec().decoder
    left = {sha256(data).digest(): data for data in golden.chunks}
    for stream, events in golden.events.items():
        decoded = [decoder.decode(body) for _, _, body in events]
        log.append(stream, 0, decoded, [Chunk(digest, data) for digest, data in left.items()])
        left.clear()


def inside(value: Any) -> Iterator[Any]:
    """Yield every struct inside an event, itself first."""
    if isinstance(value, msgspec.Struct):
        yield value
        for name in value.__struct_fields__:
            yield from inside(getattr(value, name))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from inside(item)

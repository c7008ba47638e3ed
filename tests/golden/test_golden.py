"""Every log a released version wrote still loads, folds and projects to the same bytes (``design.md`` 3, Evolution)."""

from __future__ import annotations

import typing
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from foldlog.domain import edits, events, transcript
from foldlog.projections.audit import audit
from foldlog.storage.codec import KINDS, encode_event, make_codec
from foldlog.storage.protocol import Log
from foldlog.storage.stores import open_store
from support.golden import CHANGED, FOLDER, Golden, inside, read, rendered, store
from support.rules import rule

FILES = sorted(FOLDER.glob("v*.jsonl"))
LARGEST = 300_000


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def golden(request: pytest.FixtureRequest) -> Golden:
    return read(request.param)


def loaded(golden: Golden) -> Log:
    log = open_store("memory:")
    store(golden, log)
    return log


def test_there_is_a_golden_log() -> None:
    assert [path.stem for path in FILES] == [f"v{number}" for number in range(1, len(FILES) + 1)]
    assert FILES
    assert sum(path.stat().st_size for path in FILES) < LARGEST


@rule("LAW-1")
def test_every_event_decodes_and_encodes_to_the_same_bytes(golden: Golden) -> None:
    codec = make_codec()
    total = 0
    for stream, stored in golden.events.items():
        for version, tag, body in stored:
            event = codec.decoder.decode(body)
            assert type(event) is KINDS[tag.encode()], f"{stream} @ {version}{CHANGED}"
            again = encode_event(codec, event, stream)
            assert (again.tag.decode(), again.plain) == (tag, body), f"{stream} @ {version}: {tag}{CHANGED}"
            total += 1
    assert total > 100


@rule("LAW-1")
def test_the_chain_is_the_same(golden: Golden) -> None:
    """A fork pins its parent by this digest, so even a stored log that merely re-encodes otherwise is lost."""
    log = loaded(golden)
    for stream, (version, digest) in golden.heads.items():
        head = log.head(stream)
        assert head is not None
        assert (head.version, head.digest.hex()) == (version, digest), stream + CHANGED
    assert golden.heads.keys() == golden.events.keys()
    assert log.verify().faults == ()


@rule("LAW-2", "PROP-1")
def test_every_request_projects_to_the_same_bytes(golden: Golden) -> None:
    log = loaded(golden)
    for stream, requests in golden.requests.items():
        for want, got in zip(requests, rendered(log, stream), strict=True):
            assert got == want, f"{stream}, pass {want[0]}{CHANGED}"
    assert sum(map(len, golden.requests.values())) > 40


@rule("LAW-2", "LAW-3")
def test_every_session_audits(golden: Golden) -> None:
    log = loaded(golden)
    for stream in golden.requests:
        found = audit(log, stream)
        assert found.differences == (), stream + CHANGED
        assert found.passes == len(golden.requests[stream])


def everything() -> Counter[str]:
    """Count every event type, every struct inside events, and every word of their closed lists, over all files."""
    decoder = make_codec().decoder
    seen: Counter[str] = Counter()
    for path in FILES:
        for stored in read(path).events.values():
            for _, _, body in stored:
                for value in inside(decoder.decode(body)):
                    seen[type(value).__name__] += 1
                    for name in value.__struct_fields__:
                        word = getattr(value, name)
                        if isinstance(word, str):
                            seen[f"{type(value).__name__}.{name}={word}"] += 1
    return seen


def words(struct: type[Any]) -> list[str]:
    """Return ``Struct.field=word`` for every word a closed list allows."""
    found = []
    for name, hint in typing.get_type_hints(struct).items():
        if typing.get_origin(hint) is typing.Literal:
            found += [f"{struct.__name__}.{name}={word}" for word in typing.get_args(hint)]
    return found


def test_every_event_every_edit_and_every_word_is_in_a_golden_log() -> None:
    seen = everything()
    wanted = [kind.__name__ for kind in typing.get_args(events.Event)]
    inner = [*typing.get_args(edits.Edit), edits.Insert, edits.Arrival, *typing.get_args(transcript.Part)]
    inner += [transcript.Message, events.Divergence, events.Side, events.Price, events.Decision, events.Compartment]
    wanted += [kind.__name__ for kind in inner]
    wanted += [word for kind in inner for word in words(kind)]
    missing = [name for name in wanted if not seen[name]]
    assert missing == [], f"tests/golden/make.py writes no {missing}; a stored form nobody tries is one nobody keeps"


@rule("LAW-1")
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.postgres
def test_a_golden_log_is_the_same_in_a_database(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    golden = read(FILES[-1])
    log = open_store(f"sqlite:///{tmp_path / 'log.db'}" if kind == "sqlite" else request.getfixturevalue("pg_url"))
    store(golden, log)
    for stream, (version, digest) in golden.heads.items():
        head = log.head(stream)
        assert head is not None
        assert (head.version, head.digest.hex()) == (version, digest)
    for stream, requests in golden.requests.items():
        assert list(rendered(log, stream)) == requests
    log.close()

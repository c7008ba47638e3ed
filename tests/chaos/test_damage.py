"""Whatever is done to what is stored, ``audit`` says so, names it, and blames nothing else ("What it must show" 5)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from foldlog.api import Engine
from foldlog.domain import events as ev
from foldlog.domain.errors import StoreNewer
from foldlog.projections.audit import Audit, audit
from foldlog.storage.codec import BODY_AT, SCHEMA
from foldlog.storage.protocol import Stored
from foldlog.storage.references import named_chunks
from support import chaos
from support.rules import rule
from support.stores import Kit, PostgresKit, SQLiteKit

X, Y = "session/a/x", "session/b/x"
PASSES = 16


@pytest.fixture(params=["sqlite", "postgresql"])
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kit]:
    """Return a store of each durable kind with two sessions in it."""
    made: Kit
    if request.param == "sqlite":
        made = SQLiteKit(tmp_path / "log.db")
    else:
        made = PostgresKit(request.getfixturevalue("pg_url"))
    fill(made)
    yield made
    made.close()


def fill(kit: Kit) -> None:
    for harness, seed in (("a", 5), ("b", 6)):
        script = chaos.script(seed, PASSES)
        host = chaos.Host(kit.open(), script, harness=harness)
        for call in script.calls:
            host.call(call)


class Seen(NamedTuple):
    """The session as it was before anything was done to it."""

    events: list[Stored]
    shared: set[bytes]

    def of(self, kind: type, number: int = 0) -> int:
        """Return the version of an event of that kind, the ``number``-th of them."""
        return [one.version for one in self.events if isinstance(one.event, kind)][number]

    def end(self) -> int:
        return self.events[-1].version

    def body(self) -> tuple[int, bytes]:
        """Return a message's chunk in the middle that only this session names, with the pass that first renders it."""
        version = self.of(ev.MessagesObserved, 9)
        observed = self.events[version - 1].event
        assert isinstance(observed, ev.MessagesObserved)
        digest = observed.messages[-1].body
        assert digest not in self.shared
        passed = next(one.version for one in self.events[version:] if isinstance(one.event, ev.Pass))
        return passed, digest


def look(kit: Kit) -> Seen:
    store = kit.open()
    shared = {digest for one in store.read(Y) for digest in named_chunks(one.event)}
    return Seen(list(store.read(X)), shared)


def flip(at: int) -> Callable[[bytes], bytes]:
    """Return a change of one bit in byte ``at``."""

    def change(data: bytes) -> bytes:
        place = at % len(data)
        return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]

    return change


class Damage(NamedTuple):
    """``do`` damages the store and returns the version that must be named, and words of which one must be said."""

    name: str
    do: Callable[[Kit, Seen], tuple[int, tuple[str, ...]]]


def _state(at: int) -> Callable[[Kit, Seen], tuple[int, tuple[str, ...]]]:
    def do(kit: Kit, seen: Seen) -> tuple[int, tuple[str, ...]]:
        version = seen.of(ev.PassDeferred, 7)
        kit.alter_state(X, version, flip(at))
        return version, ("altered",)

    return do


def _topic(kit: Kit, seen: Seen) -> tuple[int, tuple[str, ...]]:
    version = seen.of(ev.UsageReported, 3)
    kit.alter_topic(X, version, "MO")
    return version, ("altered",)


def _newer_topic(kit: Kit, seen: Seen) -> tuple[int, tuple[str, ...]]:
    version = seen.of(ev.UsageReported, 3)
    kit.alter_topic(X, version, "ZZ")  # damage, not a newer store: the chain is looked at first
    return version, ("altered",)


def _last_state(kit: Kit, seen: Seen) -> tuple[int, tuple[str, ...]]:
    kit.alter_state(X, seen.end(), flip(-1))
    return seen.end(), ("altered",)


def _remove(kit: Kit, seen: Seen) -> tuple[int, tuple[str, ...]]:
    version = seen.of(ev.MessagesObserved, 6)
    kit.remove(X, version, version)
    return version, ("removed",)


def _remove_first(kit: Kit, seen: Seen) -> tuple[int, tuple[str, ...]]:
    kit.remove(X, 1, 1)
    return 1, ("removed",)


def _remove_end(kit: Kit, seen: Seen) -> tuple[int, tuple[str, ...]]:
    kit.remove(X, seen.end(), seen.end())
    return seen.end(), ("missing", str(seen.end()))


def _remove_tail(kit: Kit, seen: Seen) -> tuple[int, tuple[str, ...]]:
    kit.remove(X, seen.end() - 3, seen.end())
    return seen.end() - 3, ("missing", str(seen.end()))


def _swap(kit: Kit, seen: Seen) -> tuple[int, tuple[str, ...]]:
    version = seen.of(ev.PassDeferred, 5)
    kit.swap(X, version, version + 1)
    return version, ("altered",)


def _swap_far(kit: Kit, seen: Seen) -> tuple[int, tuple[str, ...]]:
    first, second = seen.of(ev.PassDeferred, 2), seen.of(ev.PassDeferred, 9)
    kit.swap(X, first, second)
    return first, ("altered",)


def _chunk(kit: Kit, seen: Seen) -> tuple[int, tuple[str, ...]]:
    version, digest = seen.body()
    kit.alter_chunk(digest, flip(-2))
    return version, (digest.hex(),)


def _chunk_gone(kit: Kit, seen: Seen) -> tuple[int, tuple[str, ...]]:
    version, digest = seen.body()
    kit.remove_chunk(digest)
    return version, (digest.hex(), "missing")


def _head_digest(kit: Kit, seen: Seen) -> tuple[int, tuple[str, ...]]:
    kit.alter_head(X, digest=flip(11)(seen.events[-1].digest))
    return seen.end(), ("head", "altered")


def _head_version(kit: Kit, seen: Seen) -> tuple[int, tuple[str, ...]]:
    kit.alter_head(X, version=seen.end() - 1)
    return seen.end() - 1, ("head", "altered")


def _head_gone(kit: Kit, seen: Seen) -> tuple[int, tuple[str, ...]]:
    kit.remove_head(X)
    return seen.end(), ("head", "missing")


def _stream(kit: Kit, seen: Seen) -> tuple[int, tuple[str, ...]]:
    kit.remove(X, 1, seen.end())
    return 1, ("missing",)


def _stream_and_head(kit: Kit, seen: Seen) -> tuple[int, tuple[str, ...]]:
    kit.remove(X, 1, seen.end())
    kit.remove_head(X)
    return 0, ("missing",)


DAMAGES = (
    Damage("the last byte of an event", _state(-1)),
    Damage("the first byte of an event", _state(BODY_AT)),
    Damage("the header of an event", _state(0)),
    Damage("the digest an event carries of its predecessor", _state(7)),
    Damage("the topic of an event", _topic),
    Damage("the topic of an event, to an unknown one", _newer_topic),
    Damage("the last event", _last_state),
    Damage("an event removed", _remove),
    Damage("the first event removed", _remove_first),
    Damage("the last event removed", _remove_end),
    Damage("the last four events removed", _remove_tail),
    Damage("two neighbours swapped", _swap),
    Damage("two events far apart swapped", _swap_far),
    Damage("one byte of a chunk", _chunk),
    Damage("a chunk removed", _chunk_gone),
    Damage("one byte of a head's digest", _head_digest),
    Damage("the version of a head", _head_version),
    Damage("a head removed", _head_gone),
    Damage("all events of a stream", _stream),
    Damage("all events of a stream and its head", _stream_and_head),
)


def audited(kit: Kit, stream: str) -> Audit:
    """Audit a stream as a fresh process does."""
    return audit(kit.open(), stream)


def sound(kit: Kit, stream: str) -> bool:
    found = audited(kit, stream)
    return found.differences == () and found.passes == PASSES


@rule("LAW-1", "LAW-2", "PROP-1")
@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_damage_is_named_and_nothing_else_is(kit: Kit, damage: Damage) -> None:
    assert sound(kit, X)
    assert sound(kit, Y)
    seen = look(kit)
    version, words = damage.do(kit, seen)
    found = audited(kit, X)
    assert [one.kind for one in found.differences] == ["store_damaged"], found.differences
    first = found.differences[0]
    assert first.version == version, first
    for word in words:
        assert word in first.message, first
    passes = [one.event.number for one in seen.events if isinstance(one.event, ev.Pass) and one.version < version]
    assert found.passes <= len(passes) + 1, "no pass behind the damage counts as verified"
    assert sound(kit, Y)
    assert any(fault.stream in ("", X) for fault in kit.open().verify().faults)
    assert all(fault.stream != Y for fault in kit.open().verify().faults)


@pytest.mark.slow
@rule("LAW-1")
@pytest.mark.postgres
def test_a_session_beside_a_damaged_one_goes_on(kit: Kit) -> None:
    seen = look(kit)
    kit.alter_state(X, seen.of(ev.PassDeferred, 4), flip(-1))
    host = chaos.Host(kit.open(), chaos.script(6, PASSES + 1), harness="b")
    calls = host.script.calls
    truth = chaos.undisturbed(host.script)
    assert host.call(calls[-1]).digest == truth.answers[-1].digest or calls[-1].kind != "prepare"
    assert audited(kit, Y).differences == ()
    assert audited(kit, X).differences != ()


@rule("LAW-1")
@pytest.mark.postgres
def test_a_newer_store_is_refused_naming_both_versions(kit: Kit) -> None:
    """Issue 2, section 2; the fence is checked on opening and in every append."""
    script = chaos.script(7, 6)
    truth = chaos.undisturbed(script)
    host = chaos.Host(kit.open(), script, harness="c")
    half = len(script.calls) // 2
    got = [host.call(call) for call in script.calls[:half]]
    kit.fence(SCHEMA + 4)

    def fresh() -> None:
        chaos.Host(kit.open(), script, harness="d").call(script.calls[0])

    for attempt in (lambda: host.call(script.calls[half]), fresh):
        with pytest.raises(StoreNewer) as caught:
            attempt()
        assert f"version {SCHEMA + 4}" in caught.value.message
        assert f"up to {SCHEMA}" in caught.value.message
    kit.fence(SCHEMA)
    got += [host.call(call) for call in script.calls[half:]]
    assert [(one.digest, one.level) for one in got] == [(one.digest, one.level) for one in truth.answers]


# ------------------------------------------------------------------- the code itself

ASK = """
import json, sys
from foldlog.api import Engine
import foldlog.projections.wire.v1 as v1
found = Engine.open(sys.argv[1], summarizer=None).audit("a/x")
print(json.dumps([found.passes, [[d.kind, d.version, d.message] for d in found.differences], v1.__file__]))
"""


def ask(folder: Path, url: str) -> tuple[int, list[tuple[str, int, str]], str]:
    """Audit in a process whose ``foldlog`` is the copy in ``folder``."""
    path = os.pathsep.join([str(folder), *sys.path])
    run = subprocess.run(
        [sys.executable, "-c", ASK, url],
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert run.returncode == 0, run.stderr
    passes, differences, file = json.loads(run.stdout)
    return passes, [(kind, version, message) for kind, version, message in differences], file


@rule("LAW-2", "VIEW-21")
@pytest.mark.slow
def test_one_byte_of_the_wire_code_turns_the_audit_red(tmp_path: Path) -> None:
    """Even in a comment: what rendered a request is known to the byte, or it is not known."""
    kit = SQLiteKit(tmp_path / "log.db")
    fill(kit)
    source = Path(sys.modules[Engine.__module__].__file__ or "").resolve().parent
    target = tmp_path / "copy" / "foldlog"
    left_out = shutil.ignore_patterns(".*", "tests", "specs", "__pycache__", "build", "dist", "*.egg-info")
    shutil.copytree(source, target, ignore=left_out)
    url = f"sqlite:///{kit.path}"
    passes, differences, file = ask(target.parent, url)
    assert Path(file).is_relative_to(target)
    assert (passes, differences) == (PASSES, [])
    wire = target / "projections" / "wire" / "v1" / "render.py"
    data = wire.read_bytes()
    at = data.index(b'"""') + 4  # a letter of the module's docstring
    wire.write_bytes(data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1 :])
    passes, differences, _ = ask(target.parent, url)
    assert [kind for kind, _, _ in differences] == ["wire"]
    _kind, version, message = differences[0]
    first = next(one.version for one in kit.open().read(X) if isinstance(one.event, ev.Pass))
    assert version == first
    assert "wire version 1" in message
    assert passes == PASSES
    kit.close()

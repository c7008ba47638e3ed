"""A fault at every append of a 300-pass session (issue 2, "What it must show" 5; ``design.md`` 10).

Kinds: ``before`` (the store was not reached), ``inside`` (in the transaction), ``lost`` (stored, and the
acknowledgement did not arrive), ``evolve`` (stored, and the process failed before it took the events in) and
``evolved`` (right behind that). After each fault the host repeats the call it was making: to the same session, or to a
new process.

The bar is equality with an undisturbed run, behind every single call: the answer (level, number, digest and new
messages of the request), the state (every tenth time to the byte), and in the end every stored event. So nothing
acknowledged is lost and nothing is applied twice.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import foldlog.keeping
from foldlog.domain.errors import FoldlogError, StoreBusy, StoreUnavailable
from foldlog.engine import Core
from foldlog.storage.backend import unknown_outcome
from support import chaos
from support.chaos import Call, Host, Script, Truth
from support.rules import rule

KINDS = ("before", "inside", "lost", "evolve", "evolved")
STORED = {"lost", "evolve", "evolved"}
SNAPPED = {"before", "inside", "evolved"}
EVERY = 5
"""In a new process, what was stored and not acknowledged is tried at every append, the others at every fifth."""


class Crash(Exception):
    """What nobody expects: a fault in the process itself."""


class Faults:
    """One armed fault; it strikes at the next place of its kind, once."""

    def __init__(self) -> None:
        self.armed = ""
        self.struck = Counter[str]()
        self.taking = False

    def arm(self, kind: str) -> None:
        self.armed = kind

    def strike(self, kind: str, error: Exception) -> None:
        if self.armed == kind:
            self.armed = ""
            self.struck[kind] += 1
            raise error

    def hook(self, where: str) -> None:
        if where == "before":
            busy = self.struck["before"] % 2 == 0
            self.strike("before", StoreBusy("another process held the lock") if busy else StoreUnavailable("disk full"))
        elif where == "inside":
            self.strike("inside", StoreUnavailable("disk full"))
        else:
            self.strike("lost", unknown_outcome("the connection broke"))


@pytest.fixture
def faults(kind: str, monkeypatch: pytest.MonkeyPatch) -> Faults:
    """Return faults that also strike before and behind the engine's taking in of what it stored.

    With some kinds the session is folded again from frequent snapshots, with the others from its whole log.
    """
    found = Faults()
    if kind in SNAPPED:
        monkeypatch.setattr(foldlog.keeping, "SNAPSHOT_EVERY", 40)
    evolve, whole = foldlog.keeping.evolve, Core._evolve

    def before(*given: Any) -> None:
        if found.taking:  # a plan may be tried on a state of its own first
            found.strike("evolve", Crash("before the events were taken in"))
        evolve(*given)

    def behind(self: Core, *given: Any, **named: Any) -> None:
        found.taking = True
        try:
            whole(self, *given, **named)
        finally:
            found.taking = False
        found.strike("evolved", Crash("after the events were taken in"))

    monkeypatch.setattr(foldlog.keeping, "evolve", before)
    monkeypatch.setattr(Core, "_evolve", behind)
    return found


@pytest.fixture(scope="module")
def kept() -> dict[Any, Any]:
    """What readers read, shared by all runs: reading is pure."""
    return {}


@pytest.fixture(scope="module")
def script() -> Script:
    return chaos.script()


@pytest.fixture(scope="module")
def truth(script: Script, kept: dict[Any, Any]) -> Truth:
    found = chaos.undisturbed(script, kept=kept)
    levels = Counter(answer.level for answer in found.answers)
    assert levels.total() - levels[""] == 300
    assert min(levels["defer"], levels["soft+"], levels["hard"]) > 10, levels
    return found


def head_of(host: Host) -> int:
    head = host.engine.log.head(host.core.stream)
    return head.version if head is not None else 0


def attempt(host: Host, call: Call) -> tuple[chaos.Answer | None, str]:
    """Make a call that may fail; return its answer, or what it failed with."""
    try:
        return host.call(call), ""
    except (FoldlogError, Crash) as error:
        return None, type(error).__name__


def compare(number: int, kind: str, call: Call, host: Host, got: chaos.Answer, truth: Truth) -> None:
    where = f"call {number} ({call.kind}) after a fault {kind!r}"
    want = truth.answers[number]
    assert got == want, where
    assert chaos.brief(host.state()) == truth.briefs[number], where
    if number % 10 == 0:
        assert chaos.plain(host.state()) == truth.states[number], where


@rule("PROP-1", "PROP-8", "LAW-3")
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_session_goes_on_after_a_fault_at_every_append(
    kind: str, script: Script, truth: Truth, kept: dict[Any, Any], faults: Faults, tmp_path: Path
) -> None:
    host = Host(f"sqlite:///{tmp_path / 'log.db'}", script, faults.hook, kept=kept)
    for number, call in enumerate(script.calls):
        # The first call appends twice, once to open the session: every append of every call gets its fault.
        for _ in range(truth.appends[number] - (truth.appends[number - 1] if number else 0)):
            version = head_of(host)
            faults.arm(kind)
            got, failed = attempt(host, call)
            assert (head_of(host) > version) == (kind in STORED), f"call {number} ({call.kind}): {failed}"
        faults.arm("")
        compare(number, kind, call, host, host.call(call) if got is None else got, truth)
    assert faults.struck[kind] == truth.appends[-1] > 450
    finish(host, truth)
    print(f"\n{kind}: {faults.struck[kind]} faults, {len(truth.events)} events as in the undisturbed run")


@rule("PROP-1", "PROP-8", "LAW-1")
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_new_process_goes_on_after_a_fault_at_every_append(
    kind: str, script: Script, truth: Truth, kept: dict[Any, Any], faults: Faults, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    host = Host(url, script, faults.hook, kept=kept)
    every = 1 if kind == "lost" else EVERY
    for number, call in enumerate(script.calls):
        if number % every:
            got = host.call(call)
        else:
            for _ in range(truth.appends[number] - (truth.appends[number - 1] if number else 0)):
                faults.arm(kind)
                attempt(host, call)
                host.close()
                host = Host(url, script, faults.hook, kept=kept)
            faults.arm("")
            got = host.call(call)
        compare(number, kind, call, host, got, truth)
    assert faults.struck[kind] >= truth.appends[-1] // every
    finish(host, truth)


def finish(host: Host, truth: Truth) -> None:
    """Hold the whole log against the undisturbed one's, and audit it."""
    log = host.engine.log
    assert tuple(chaos.events_of(log)) == truth.events
    commands = chaos.commands_of(log)
    assert len(commands) == len(set(commands)), "a command id stands in the log twice"
    assert host.engine.audit("x").differences == ()
    assert chaos.folded(log) == truth.states[-1]
    assert log.verify().faults == ()
    host.close()

"""Several processes on one store: on one session, beside each other, behind a lock (issue 2, section 2)."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog.domain import events as ev
from foldlog.domain.errors import StoreBusy, UnknownSession, UnknownTag
from foldlog.storage.protocol import BUSY_MS
from foldlog.storage.stores import open_store
from support import chaos, chaos_child
from support.rules import rule

STEPS = 60


def together(target: Any, argument_lists: list[tuple[Any, ...]]) -> None:
    children = [chaos_child.context().Process(target=target, args=arguments) for arguments in argument_lists]
    for child in children:
        child.start()
    for child in children:
        child.join(120)
        assert child.exitcode == 0


@rule("PROP-1", "PROP-9", "LAW-3")
@pytest.mark.slow
def test_two_processes_on_one_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    meeting = chaos_child.Meeting(2)
    outs = [tmp_path / f"out-{who}" for who in range(2)]
    together(chaos_child.race, [(url, who, STEPS, meeting, str(outs[who])) for who in range(2)])
    found = [json.loads(out.read_text()) for out in outs]
    conflicts = [one["conflicts"] for one in found]
    log = open_store(url)
    stored = list(log.read("session/api/shared"))
    kinds = Counter(type(one.event).__name__ for one in stored)
    with capsys.disabled():
        print(f"\n{sum(conflicts)} conflicts {conflicts} over {len(stored)} events: {dict(kinds)}")
    assert sum(conflicts) >= 100
    assert min(conflicts) > 0, "one process always won: that is no race"

    assert [one.version for one in stored] == list(range(1, len(stored) + 1))
    events = [one.event for one in stored]
    commands = Counter(event.cmd for event in events if event.cmd)
    assert set(commands.values()) == {1}, "a command was applied twice"
    for who in range(2):
        for number in range(STEPS):
            assert commands[f"usage-{who}-{number}"] == 1
            assert commands[f"drop-{who}-{number}"] == (number > 0)
            assert commands[f"flush-{who}-{number}"] == (number % 7 == 3 + who)
    queued = [tag for event in events if isinstance(event, ev.DropsQueued) for tag in event.tags]
    assert sorted(queued) == list(range(1, 2 * STEPS - 1))
    observed = [message for event in events if isinstance(event, ev.MessagesObserved) for message in event.messages]
    assert len(observed) == len({message.ident for message in observed}) == 2 * STEPS - 1
    passes = [event for event in events if isinstance(event, ev.Pass)]
    assert [event.number for event in passes] == list(range(1, len(passes) + 1))
    digests = {event.number: event.digest.hex() for event in passes}
    for one in found:
        for _, number, digest in one["acked"]:
            assert digests[number] == digest
    assert kinds["ConversationRebuilt"] > 3

    with foldlog.Engine(log, chaos.count, "rough", lambda: 1) as engine:
        assert engine.audit("shared").differences == ()
        landed = [tag for event in passes if not isinstance(event, ev.PassDeferred) for tag, _ in event.landed]
        assert len(landed) == len(set(landed))
        assert set(landed) <= set(queued)
        assert log.verify().faults == ()


@rule("PROP-7")
@pytest.mark.slow
def test_two_hosts_on_one_store_never_see_each_other(tmp_path: Path) -> None:
    """The same session id of two hosts: two sessions, each as if it were alone."""
    url = f"sqlite:///{tmp_path / 'log.db'}"
    meeting = chaos_child.Meeting(2)
    names = ("a", "b")
    scripts = {name: chaos.script(seed, 70) for seed, name in enumerate(names, 7)}
    outs = {name: tmp_path / name for name in names}
    together(chaos_child.alone, [(url, name, scripts[name], meeting, str(outs[name])) for name in names])
    log = open_store(url)
    engine = foldlog.Engine(log, chaos.count, "rough", lambda: 1)
    assert engine.sessions() == [(f"{name}/x", len(chaos.events_of(log, f"session/{name}/x"))) for name in names]
    with pytest.raises(UnknownSession, match=r"a/x.*b/x"):
        engine.find("x")
    for name in names:
        found = json.loads(outs[name].read_text())
        host = chaos.Host("memory:", scripts[name], harness=name)
        answers = [chaos.Answer(*answer) for answer in found["answers"]]
        assert answers == [host.call(call) for call in scripts[name].calls]
        assert chaos.events_of(log, f"session/{name}/x") == chaos.events_of(host.engine.log, f"session/{name}/x")
        assert engine.audit(f"{name}/x").differences == ()
    # Numbers of one host mean nothing to the other.
    sessions = {name: engine.session("x", harness=name) for name in names}
    sizes = {name: sessions[name].status().tags for name in names}
    small, large = sorted(names, key=lambda name: sizes[name])
    assert sizes[small] < sizes[large]
    with pytest.raises(UnknownTag):
        sessions[small].expand(sizes[large])
    assert sessions[large].expand(sizes[large])[0].tag == sizes[large]
    queued = {name: sessions[name].status().queued for name in names}
    sessions[large].reduce(str(sizes[large]))
    assert sessions[small].status().queued == queued[small]
    engine.close()


@pytest.mark.slow
@rule("PROP-8")
def test_a_locked_database_is_waited_for_a_moment_and_then_said(tmp_path: Path) -> None:
    script = chaos.script(passes=12)
    truth = chaos.undisturbed(script)
    path = tmp_path / "log.db"
    host = chaos.Host(f"sqlite:///{path}", script)
    half = len(script.calls) // 2
    got = [host.call(call) for call in script.calls[:half]]
    context = chaos_child.context()
    held, release = context.Event(), context.Event()
    child = context.Process(target=chaos_child.hold, args=(str(path), held, release))
    child.start()
    assert held.wait(60)
    for call in script.calls[half : half + 2]:
        began = time.monotonic()
        with pytest.raises(StoreBusy) as caught:
            host.call(call)
        waited = time.monotonic() - began
        assert caught.value.recoverable
        assert str(BUSY_MS) in caught.value.message
        assert BUSY_MS / 1000 * 0.8 <= waited < 5, waited  # not at once, and not for long
    assert chaos.plain(host.state()) == truth.states[half - 1]
    release.set()
    child.join(60)
    assert child.exitcode == 0
    got += [host.call(call) for call in script.calls[half:]]
    assert tuple(got) == truth.answers
    assert tuple(chaos.events_of(host.engine.log)) == truth.events
    host.close()

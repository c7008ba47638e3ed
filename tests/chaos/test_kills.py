"""A process that is killed at any moment loses nothing it acknowledged (issue 2, "What it must show" 5)."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from foldlog.storage.stores import open_store
from support import chaos, chaos_child
from support.rules import rule

KILLS = 40
PLACES = ("before", "inside", "after", "evolve", "elsewhere")
"""Hooks of the store, the engine's own taking in, and a kill from outside after a delay."""
WORDS = {"-": "loading", "r": "between", "b": "before", "i": "inside", "a": "after", "e": "evolve"}


def run(path: Path, acks: Path, place: str, rng: Random) -> tuple[int, str]:
    """Let a child play on, killed at a place or after a delay; return its exit code and where it was last."""
    context = chaos_child.context()
    passed = context.Value("c", b"-", lock=False)
    count = rng.randrange(1, 24)
    child = context.Process(target=chaos_child.play, args=(str(path), str(acks), place, count, passed))
    child.start()
    if place == "elsewhere":
        while passed.value == b"-" and child.is_alive() and rng.random() > 0.01:  # mostly once it is at work
            time.sleep(0.001)
        child.join(rng.uniform(0.0, 0.05))
        child.kill()
    child.join(120)
    assert child.exitcode is not None, "the child hangs"
    code = child.exitcode
    child.close()
    return code, passed.value.decode()


@rule("PROP-1", "PROP-8", "LAW-1", "LAW-3")
@pytest.mark.slow
def test_forty_kills(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = Random(20)
    path, acks = tmp_path / "log.db", tmp_path / "acks"
    acks.touch()
    killed: Counter[str] = Counter()
    last: Counter[str] = Counter()
    truth = chaos.undisturbed(chaos_child.KILLED)
    sessions = 1
    while killed.total() < KILLS:
        place = PLACES[killed.total() % len(PLACES)]
        code, passed = run(path, acks, place, rng)
        if code == -signal.SIGKILL:
            killed[place] += 1
            if place == "elsewhere":
                last[WORDS[passed]] += 1
        assert code in (0, -signal.SIGKILL), code
        if len(read(acks)) == len(truth.answers):  # done before all kills were made: another one from the beginning
            check(path, acks, truth)
            sessions += 1
            path, acks = tmp_path / f"log{sessions}.db", tmp_path / f"acks{sessions}"
            acks.touch()
    code, _ = run(path, acks, "nowhere", rng)
    assert code == 0
    check(path, acks, truth)
    with capsys.disabled():
        print(f"\n{KILLS} SIGKILLs in {sessions} session(s)")
        for place in PLACES:
            print(f"  {place:10} {killed[place]:3} {'#' * killed[place]}")
        print(f"  from outside, the place passed last: {dict(last)}")
    assert killed.total() == KILLS
    assert min(killed[place] for place in PLACES) >= 5


def read(acks: Path) -> list[Any]:
    return [json.loads(line) for line in acks.read_bytes().splitlines()]


def check(path: Path, acks: Path, truth: chaos.Truth) -> None:
    """Hold what was acknowledged, and the log, against the undisturbed run."""
    assert [chaos.Answer(*answer) for answer in read(acks)] == list(truth.answers)
    log = open_store(f"sqlite:///{path}")
    try:
        assert tuple(chaos.events_of(log)) == truth.events
        assert chaos.folded(log) == truth.states[-1]
        assert log.verify().faults == ()
    finally:
        log.close()

"""Whether a summary is made now (``history.md`` 4.2, 4.5)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldlog.domain.history.boundary import Boundary, Row, resolve
from foldlog.domain.history.budgets import figures
from foldlog.domain.history.trigger import Facts, Scan, Trigger, decide, gate, project

FIGURES = figures(200_000, 6_500, 5_000)  # trigger budget 6,500
HEAD = resolve([Row(20_000)] * 6, 1, FIGURES)
NO_HEAD = resolve([], 1, FIGURES)
BLOCKED = resolve([Row(20_000, user_prompt=True), *[Row(20_000)] * 5], 1, FIGURES)


def facts(**more: Any) -> Facts:
    given = {
        "running": False, "usage": 5_000, "threshold": 6_500, "force": 8_500, "bound": None, "projected": None,
        "waiting": 6,
    }  # fmt: skip
    return Facts(**{**given, **more})


def scan(tokens: int = 0, messages: int = 0, clusters: int = 0, *, more: bool = False) -> Scan:
    return Scan(tokens, messages, clusters, more)


def unasked(scale: int) -> Boundary:
    raise AssertionError(f"resolved again at {scale}")


def ask(found: Facts, read: Scan, boundary: Boundary = HEAD) -> Trigger:
    return decide(found, FIGURES, boundary, read, unasked)


def test_the_boundaries_are_what_the_tests_take_them_for():
    """HIST-14."""
    assert HEAD.runnable
    assert not NO_HEAD.runnable
    assert (BLOCKED.runnable, BLOCKED.blocked) == (False, True)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"running": True, "usage": 9_900}, "in_progress"),
        ({"bound": 6_499, "usage": 6_299}, "cheap_gate"),
        ({"bound": 0, "usage": -1}, "cheap_gate"),
        ({"waiting": 0}, "nothing_new"),
        ({"bound": 6_500}, None),
        ({"bound": 0, "usage": 6_300}, None),
        ({"bound": None}, None),
    ],
)
def test_the_gate(given, reason):
    """HIST-11."""
    found = gate(facts(**given), FIGURES)
    assert (found.reason if found else None) == reason
    if found:
        assert ask(facts(**given), scan(10**6, 99, 99, more=True)) == found
        assert not found.fire


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (scan(6_500, 5, 3), "commit_clusters"),
        (scan(6_499, 5, 3), "below_threshold"),
        (scan(6_500, 5, 2), "below_threshold"),
        (scan(19_500), "tail_size"),
        (scan(19_499), "below_threshold"),
        (scan(1, more=True), "tail_size"),
        (scan(0, more=True), "below_threshold"),
    ],
)
def test_clusters_and_tail_size(read, reason):
    """HIST-13: at any usage, an unknown one too, drops or not."""
    for usage in (5_000, -1):
        found = ask(facts(usage=usage, projected=0), read)
        assert (found.reason, found.fire) == (reason, reason != "below_threshold")
        assert found.boundary == (HEAD if found.fire else None)
    assert ask(facts(clusters=0), scan(6_500, 5, 9)).reason == "below_threshold"
    assert ask(facts(), read, NO_HEAD).reason == "below_threshold"


def test_pressure():
    """HIST-13: from the threshold less 2% on, where drops do not bring it to three quarters of the threshold."""
    assert ask(facts(usage=6_299), scan(6_000)).reason == "below_threshold"
    assert ask(facts(usage=6_300), scan(6_000)) == Trigger(True, "projected_headroom", HEAD)
    assert ask(facts(usage=6_300, projected=4_875), scan(6_000)).reason == "drops_suffice"
    assert ask(facts(usage=6_300, projected=4_876), scan(6_000)).fire
    assert ask(facts(usage=6_300), scan(0, 12)).fire
    small = msgspec.structs.replace(HEAD, eligible_tokens=5_999)
    assert ask(facts(usage=6_300), scan(5_999, 11), small).reason == "too_small"
    assert ask(facts(usage=6_300), scan(6_000, 11), small).fire
    assert ask(facts(usage=6_300), scan(0, 12), small).fire


def test_the_force_band():
    """HIST-12: the scan does not matter there."""
    assert ask(facts(usage=8_500), scan()) == Trigger(True, "force_band", HEAD)
    assert ask(facts(usage=8_499), scan(), msgspec.structs.replace(HEAD, eligible_tokens=0)).reason == "too_small"
    assert ask(facts(usage=8_500, projected=4_875), scan()).reason == "drops_suffice"
    asked: list[int] = []

    def again(scale: int) -> Boundary:
        asked.append(scale)
        return HEAD if scale == 25 else NO_HEAD

    assert decide(facts(usage=9_499), FIGURES, NO_HEAD, scan(), again).reason == "no_force_head"
    assert decide(facts(usage=9_500), FIGURES, NO_HEAD, scan(), again) == Trigger(True, "force_band", HEAD)
    assert asked == [50, 25]


def test_the_floor_mark():
    """HIST-15: only under pressure, only where drops do not do, and only for the newest prompt."""
    assert ask(facts(usage=6_300), scan(), BLOCKED) == Trigger(False, "no_head", None, floor_mark=True)
    assert not ask(facts(usage=6_300), scan(), NO_HEAD).floor_mark
    assert not ask(facts(usage=6_299), scan(), BLOCKED).floor_mark
    assert not ask(facts(usage=6_300, projected=4_000), scan(), BLOCKED).floor_mark
    marked = resolve([Row(20_000, user_prompt=True), *[Row(20_000)] * 5], 1, FIGURES, floor_mark=True)
    assert ask(facts(usage=6_300), scan(6_000), marked).fire


def test_projection():
    """HIST-13: rounded up, and unknown where nothing is droppable or nothing is known."""
    assert project(8_000, 300, 100) == 5_334
    assert project(8_000, 300, 300) == project(8_000, 300, 999) == 0
    assert [project(-1, 9, 3), project(8_000, 0, 3), project(8_000, 9, 0)] == [None, None, None]


@given(
    st.builds(
        facts,
        running=st.booleans(),
        usage=st.integers(-1, 10_500),
        bound=st.none() | st.integers(0, 20_000),
        projected=st.none() | st.integers(0, 10_500),
        waiting=st.integers(0, 20),
        clusters=st.integers(0, 4),
    ),
    st.builds(Scan, st.integers(0, 30_000), st.integers(0, 20), st.integers(0, 5), st.booleans()),
    st.sampled_from([HEAD, NO_HEAD, BLOCKED]),
    st.sampled_from([HEAD, NO_HEAD]),
)
def test_what_fires_can_run(found, read, boundary, scaled):
    """HIST-11, HIST-12, HIST-14: a decision to run always has something to read, and only one run is on."""
    decision = decide(found, FIGURES, boundary, read, lambda _: scaled)
    assert decision.fire == (decision.boundary is not None)
    if decision.fire:
        assert decision.boundary is not None
        assert decision.boundary.runnable
        assert not found.running
        assert not decision.floor_mark

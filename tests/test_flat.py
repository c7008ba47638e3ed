"""Whatever a session has behind it, a deferred pass that is told only what is new does the same work (LAW-3).

Work is counted in lines of foldlog that run, so that no clock has a say; ``tests/bench`` holds the times.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import foldlog
from foldlog.domain import events as ev
from support.past import opened, summarise, use
from support.talk import Chat, assistant, call, result, text, user, words

HOME = str(Path(foldlog.__file__).parent)
SHORT, LONG = 40, 400
"""Steps of an agent behind a session before the passes that are counted."""
COUNTED = 7
WINDOW = 100_000_000


class Told(Chat):
    """A host that tells what is new alone, step for step."""

    size = 30
    """Words of a result."""

    def __init__(self, **options: Any) -> None:
        super().__init__(opened(), **{"context_limit": WINDOW, **options})
        self.number = 0

    def step(self, **more: Any) -> foldlog.Request:
        self.number += 1
        id, said = f"t{self.number:06}", f"{self.number:06} {words(self.size)}"
        new = (assistant([text(f"look {said}"), call(id, command=said)]), user([result(id, said)]))
        self.messages += new
        return self.advance(*new, **more)

    def steps(self, count: int) -> foldlog.Request:
        request = self.advance(user("begin")) if not self.number else None
        for _ in range(count):
            request = self.step()
        assert request is not None
        return request

    def revise(self, ids: list[int]) -> None:
        """Change the results of the first steps, which stand in these messages."""
        self.advance(revised=[(m, user([result(f"t{n:06}", f"other {n}")])) for n, m in enumerate(ids, 1)])


def talked(count: int) -> Told:
    host = Told()
    host.steps(count)
    return host


def queued(count: int) -> Told:
    """Much is marked, and nothing has let it land."""
    host = Told()
    host.steps(count)
    host.session.reduce(f"1-{count}")
    return host


def dropped(count: int) -> Told:
    """Much was marked, and has left."""
    host = queued(count)
    host.session.report_cache_loss("said so")
    host.step()
    return host


def raw(count: int) -> Told:
    """All of it went out without a pass, one request after the other, and shows no number yet."""
    host = Told()
    host.steps(1)
    new = []
    for number in range(count):
        id, said = f"r{number:06}", f"{number:06} {words(30)}"
        new += [assistant([text(said), call(id, command=said)]), user([result(id, said)])]
    host.advance(*new)
    return host


def published(count: int) -> Told:
    """Most of it stands in summaries that no request shows yet."""
    host = Told()
    host.steps(count)
    for end in range(9, 2 * count - 20, 10):
        summarise(host, end)
    return host


def covered(count: int) -> Told:
    """Most of it stands in summaries, a few steps each, which the head shows."""
    host = published(count)
    host.session.report_cache_loss("said so")
    host.step()
    return host


def revised(count: int) -> Told:
    """Its host changed much of it."""
    host = Told()
    host.steps(count)
    host.revise(host.state.path[2::2])
    return host


def changed(count: int) -> Told:
    """Its host changed much of what summaries cover, and may show it one day."""
    host = covered(count)
    host.revise(host.state.path[2 : host.state.start() : 2])
    return host


def nudged(count: int) -> Told:
    """There is much that the agent could mark, and it was told."""
    host = Told(reduce_tool=True)
    host.steps(count)
    return host


def measured(count: int) -> Told:
    """Every answer's usage is in the log."""
    host = Told()
    for _ in range(count):
        use(host.steps(1), 1_000)
    return host


class Pressed(Told):
    """Its window is nearly full, so the lanes say on every pass what they would do."""

    full = False

    def step(self, **more: Any) -> foldlog.Request:
        request = super().step(**more)
        if self.full:
            use(request, 75_000)
        return request


def held(count: int) -> Told:
    """What is marked waits for a summary that another process makes; older ones cover most."""
    host = Pressed(context_limit=100_000, lanes=True, policy={"protected_tokens": 0})
    host.steps(count)
    for end in range(9, 2 * count - 20, 10):
        summarise(host, end)
    host.session.report_cache_loss("said so")
    host.step()
    host.session.core.command(lambda _, at: [ev.HistorianStarted(at, "", "run", 1, 1, b"", "elsewhere", at + 10**9)])
    newest = len(host.state.tags)
    host.session.reduce(f"{newest - 12}-{newest - 4}")
    host.full = True
    host.steps(2)
    assert host.session.core._last.event.decision.held
    return host


PASTS = (talked, queued, dropped, raw, covered, published, revised, changed, nudged, measured, held)


def lines(run: Callable[[], Any]) -> int:
    """Return how many lines of foldlog a call runs."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if event == "call":
            return trace if frame.f_code.co_filename.startswith(HOME) else None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


def work(host: Told) -> int:
    """Return the lines of a common deferred pass; one that has something to tell or to keep may be longer."""
    host.steps(3)
    found = []
    for _ in range(COUNTED):
        found.append(lines(host.step))
        assert host.session.core._last.event.__class__.__name__ == "PassDeferred"
    return int(statistics.median(found))


@pytest.mark.rule("LAW-3")
@pytest.mark.parametrize("past", PASTS, ids=lambda past: past.__name__)
def test_a_deferred_pass_costs_the_same_whatever_is_behind_it(past: Callable[[int], Told]):
    short, long = past(SHORT), past(LONG)
    assert len(long.state.path) >= 8 * len(short.state.path)
    assert work(long) <= work(short) * 1.05 + 20


def nudging(count: int) -> int:
    """Return the lines of the first pass that tells an agent how much it could mark, behind equally many words."""
    host = Told(reduce_tool=True)
    host.size = 40 * LONG // count
    host.steps(count)
    host.size = 40_000
    for _ in range(9):
        before, ran = host.state.nudged, lines(host.step)
        if host.state.nudged != before:
            return ran
    raise AssertionError("no pass had anything to tell")


@pytest.mark.rule("LAW-3")
def test_telling_an_agent_what_it_could_mark_costs_the_same_whatever_is_behind_it():
    assert nudging(LONG) <= nudging(SHORT) * 1.05 + 20

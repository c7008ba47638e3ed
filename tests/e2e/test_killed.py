"""Killed in mid-stream and in mid-pass: foldlog, and the host. Then the window fills."""

from __future__ import annotations

import time

import pytest
from e2e import measure, scripts
from e2e.hosts import codex
from e2e.stage import stage, when

from foldlog import Engine


@pytest.fixture(scope="session")
def killed(host, tmp_path_factory):
    """The stage behind three runs, with the times of the kills in mid-pass."""
    root = tmp_path_factory.mktemp(f"{host.NAME}-killed") / "r"
    times = []

    def kill(what):
        what()
        times.append(time.time())

    with stage(root, host, lambda work: scripts.killed(work, host.WINDOW), managed=True) as made:
        if host is codex:
            codex.widen(made.room)

        def foldlog_twice():
            time.sleep(0.2)
            made.crash()
            made.amid("mark1", lambda: kill(made.kill))
            made.again()

        with when(made, scripts.CUT_FOLDLOG, foldlog_twice), when(made, scripts.CUT_HOST, made.kill_host):
            made.play(scripts.PROMPT.format(track="main", step=0))
        session = made.host.session_of(made.ran[-1])
        with when(made, scripts.SECOND_MARK, lambda: made.amid("mark2", lambda: kill(made.kill_host))):
            made.play(scripts.PROMPT.format(track="main", step=scripts.CUT_HOST), session)
        made.play(scripts.PROMPT.format(track="main", step=scripts.SECOND_MARK + 1), session)
        yield made, times


@pytest.fixture(scope="session")
def asked(killed):
    made, _ = killed
    return measure.main(made.records, measure.rows(made.db))


def test_the_session_goes_on_behind_each_kill(killed):
    made, _ = killed
    first, second, last = made.ran
    assert first.code != 0
    assert second.code != 0
    assert (last.code, made.host.said(last)) == (0, "The list is done."), last.err
    records = made.records
    assert [each.message for each in records if each.failure in {"invalid", "overflow"} or each.kind == "bad"] == []
    assert [each.n for each in records if each.kind == "summary"] == [], "the host compacted by itself"
    assert {each.step for each in records if each.kind == "step"} == set(range(scripts.LAST + 1))


def test_the_kills_came_in_mid_pass(killed):
    """What was being made when they came was not sent before."""
    made, times = killed
    for mark, at in zip((scripts.FIRST_MARK, scripts.SECOND_MARK), times, strict=True):
        assert [each.n for each in made.records if each.step == mark + 1 and each.at < at] == []


def test_no_byte_moved_and_no_read_was_lost(asked):
    """A pass behind a rebuild that was made and never sent shows the provider that rebuild."""
    deferred = [each for each in asked if each.row.level == "defer" and "open_rebuild" not in each.row.reasons]
    wrong = [each for each in deferred if each.changed and not each.row.divergence]
    assert [(each.record.n, each.record.step, each.row) for each in wrong] == []
    assert [(each.record.n, each.record.step, each.row) for each in deferred if each.cause == "unexplained"] == []


def test_at_95_per_cent_the_summary_is_waited_for(killed, asked):
    """The request behind the full one has the summary of what was before, and one emergency's drops."""
    made, _ = killed
    full = next(each for each in asked if each.record.step == scripts.LAST - 2)
    assert full.record.total >= made.room.window * 95 // 100
    behind = next(each for each in asked if each.record.before == full.record.n)
    assert behind.record.total < full.record.total * 0.7
    assert behind.row.level in measure.FOLDS
    assert {"published", "force"} <= set(behind.row.reasons)
    landed = [each.record.step for each in asked for lane in each.row.lanes if lane.landed and lane.lane == "emergency"]
    assert landed == [scripts.LAST - 1], "one batch, once"
    if made.host.NAME in {"pi", "omp"}:
        assert "waiting for a summary" in made.ran[-1].err


def test_the_stored_session_proves_itself(killed):
    made, _ = killed
    with Engine.open(f"sqlite:///{made.db}", summarizer=None) as engine:
        ((stream, _),) = engine.sessions()
        assert engine.audit(stream).differences == ()

"""The table of passes (specs/cli.md, CLI-11)."""

from __future__ import annotations

import pytest

import foldlog
from foldlog.projections import timeline as table
from foldlog.projections.timeline import causes, timeline

STREAM = "session/api/s"


class NoBodies:
    """A source that gives events and nothing else."""

    def __init__(self, log):
        self.read = log.read


@pytest.fixture
def engine():
    with foldlog.Engine.open("memory:", summarizer=None) as opened:
        yield opened


def ask(number):
    return {"role": "user", "content": f"question {number}"}


def answer(number):
    return {"role": "assistant", "content": f"answer {number}"}


@pytest.mark.rule("CLI-11")
def test_a_row_a_pass_with_what_became_of_it(engine):
    session = engine.session("s", context_limit=200_000)
    first = session.prepare([ask(1)], now=1_000)
    first.report_usage(input=10, cache_read=20, cache_write=5, output=7)
    second = session.prepare([ask(1), answer(1), ask(2)], now=1_010)
    second.report_failure("broken")
    session.flush()
    session.prepare([ask(1), answer(1), ask(2), answer(2), ask(3)], now=1_020).report_failure("overflow", limit=100)
    rows = timeline(NoBodies(engine.log), STREAM)
    assert [row.number for row in rows] == [1, 2, 3]
    assert [row.level for row in rows][:2] == ["hard", "defer"]
    assert (rows[0].reasons, rows[0].prompt, rows[0].output) == (("first_render",), 35, 7)
    assert (rows[1].outcome, rows[1].prompt, rows[1].parts) == ("broken", -1, 2)
    assert (rows[2].outcome, "flush" in rows[2].reasons) == ("overflow", True)
    assert [row.now for row in rows] == [1_000_000, 1_010_000, 1_020_000]
    assert all(row.tokens > 0 and row.version > 0 for row in rows)


def test_landed_drops_and_the_hosts_changes_are_seen(engine):
    session = engine.session("s", context_limit=200_000)
    messages = [ask("long " * 500), answer(1), ask(2)]
    session.prepare(messages)
    session.reduce("1")
    session.flush()
    session.prepare([*messages, answer(2), ask(3)])
    messages[0] = ask("another")
    session.prepare([*messages, answer(2), ask(3)])
    rows = timeline(engine.log, STREAM)
    assert [row.landed for row in rows] == [0, 1, 0]
    assert rows[1].level == "soft+"
    assert rows[2].divergence == "revised"


@pytest.mark.rule("PROXY-16")
def test_what_the_host_changed_has_its_price(engine):
    session = engine.session("s", context_limit=200_000)
    messages = [ask(1), answer(1), ask(2)]
    session.prepare(messages).report_usage(input=10, cache_read=0, cache_write=4_000)
    messages += [answer(2), ask(3)]
    session.prepare(messages).report_usage(input=10, cache_read=4_000, cache_write=1_000)
    messages = [ask("1, said otherwise"), *messages[1:], answer(3), ask(4)]
    session.prepare(messages).report_usage(input=10, cache_read=600, cache_write=4_900)
    messages += [answer(4), ask(5)]
    session.prepare(messages)
    assert [row.lost for row in timeline(engine.log, STREAM)] == [-1, -1, 4_410, -1]


def test_a_refusal_is_a_row(engine):
    session = engine.session("s", context_limit=2_000)
    with pytest.raises(foldlog.Refused) as refused:
        session.prepare([ask("much too long " * 3_000)])
    (row,) = timeline(engine.log, STREAM)
    assert (row.level, row.reasons) == ("refused", (refused.value.code,))
    assert row.message in str(refused.value)


def test_causes_are_counted_dearest_level_first():
    seen = [("defer", ()), ("hard", ("ttl_idle",)), ("defer", ()), ("soft+", ("force", "flush")), ("defer", ("force",))]
    assert [(one.level, one.cause, one.passes) for one in causes(seen)] == [
        ("hard", "ttl_idle", 1),
        ("soft+", "force, flush", 1),
        ("defer", table.QUIET, 2),
        ("defer", "force", 1),
    ]
    assert causes([]) == ()

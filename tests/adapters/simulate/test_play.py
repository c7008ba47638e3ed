"""Playing: session time, what a request would hold with nothing removed, and whose history it is."""

from __future__ import annotations

import msgspec
import pytest

import foldlog
from foldlog.adapters.billing.profiles import PROFILES
from foldlog.adapters.billing.records import Record
from foldlog.adapters.models.summarizers import Extractive, Job, Summarised
from foldlog.adapters.models.tokens import tokenizer
from foldlog.adapters.simulate.arms import NOTHING, ONCE, OURS, compared
from foldlog.adapters.simulate.play import Playing, play
from foldlog.adapters.traces.generator import generate

WINDOW = 60_000


def times(given: list[int]) -> list[int]:
    """Play a session with these times; return those of its wire log."""
    trace = generate(7, len(given))
    steps = tuple(msgspec.structs.replace(step, at=at) for step, at in zip(trace.steps, given, strict=True))
    records: list[Record] = []
    with foldlog.Engine.open("memory:", summarizer=None) as engine:
        play(engine, msgspec.structs.replace(trace, steps=steps), Playing(taken=records.append))
    return [record.at for record in records]


@pytest.mark.rule("CLI-25")
def test_session_time_never_runs_back_and_is_never_made_up():
    base = 1_700_000_000_000
    assert times([0, base, base - 5_000, 0, base + 1]) == [0, base, base, base, base + 1]
    assert times([0, 0]) == [0, 0]


@pytest.mark.rule("CLI-2")
def test_what_a_cut_takes_out_is_taken_off_the_recorded_usage():
    """Recorded figures are of the raw prompt; with history folded the session must hear of the smaller one."""
    trace, count = generate(7, 90, reduce=False), tokenizer()
    with foldlog.Engine.open("memory:", summarizer=None) as engine:
        told = play(engine, trace, Playing(window=WINDOW, summarizer=Extractive(count)))
        session = engine.session(trace.name, "trace", codec=trace.codec)
        assert session.core.hot().state.cut > 0
        heard = session.status().usage_tokens
        ours = session.core.hot().state.last.tokens
    assert told.usage["reduced"] > 0
    assert told.overflows == 0
    raw = trace.steps[-1].usage
    assert raw is not None
    assert heard < 0.7 * (raw.input + raw.cache_read + raw.cache_write)
    assert heard == pytest.approx(ours, rel=0.35), "what is told is of the size of what was sent"


class Broken:
    """Costs a call each time, and gives nothing."""

    name, free = "broken", False

    def __call__(self, job: Job) -> Summarised:
        raise RuntimeError("out of order")


@pytest.mark.rule("CLI-26")
def test_runs_that_give_nothing_are_counted_and_change_nothing():
    trace = generate(7, 60)
    logs: list[list[Record]] = []
    for summarizer in (None, Broken()):
        records: list[Record] = []
        with foldlog.Engine.open("memory:", summarizer=None) as engine:
            told = play(engine, trace, Playing(window=200_000, summarizer=summarizer, taken=records.append))
            assert engine.audit(trace.name).differences == ()
        logs.append(records)
    assert told.failed_summaries > 0
    assert (told.compartments, told.summary_calls) == (0, 0)
    assert logs[0] == logs[1]


@pytest.mark.rule("CLI-27", "BILL-20")
def test_the_baselines_hold_what_ours_holds():
    """System, tools and messages of the trace: the arms differ by what foldlog adds and takes away, by nothing else."""
    trace, count = generate(7, 40), tokenizer()
    records: list[Record] = []
    profile = PROFILES["anthropic-5m"]
    with foldlog.Engine.open("memory:", summarizer=None) as engine:
        how = Playing(window=0, profile=profile, system_tokens=900, taken=records.append)
        play(engine, trace, how)
    arms = compared(trace, records, profile, count, 0, 900)
    assert list(arms.bills) == [OURS, NOTHING], "without a window nothing is compacted"
    ours, theirs = (arms.logs[arm][-1] for arm in (OURS, NOTHING))
    tools = {digest for digest, _, _ in theirs.blocks[: 1 + trace.tools.count(b'"name"')]} if trace.tools else set()
    assert tools <= {digest for digest, _, _ in ours.blocks}
    assert theirs.blocks[0] == ours.blocks[0]
    assert [record.at for record in arms.logs[OURS]] == [record.at for record in arms.logs[NOTHING]]
    assert [record.output_tokens for record in arms.logs[OURS]] == [
        record.output_tokens for record in arms.logs[NOTHING]
    ]
    assert list(compared(trace, records, profile, count, WINDOW).bills) == [OURS, NOTHING, ONCE]

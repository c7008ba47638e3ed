"""What sessions cost with foldlog, against doing nothing and against compacting once (issue 3, "What it must show", 3).

Each recorded session is played on windows whose execute threshold its raw messages outgrow 1.5 and 3 times, and on one
whose threshold they never reach, with tags, guidance and summaries on, against a simulated provider. All arms are
billed from their wire logs by the one function; ours once more, by a second program, from the file that was written.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog.adapters.billing.bill import bill
from foldlog.adapters.billing.profiles import PROFILES
from foldlog.adapters.billing.records import Record, load
from foldlog.adapters.models.summarizers import Extractive
from foldlog.adapters.models.tokens import tokenizer
from foldlog.adapters.simulate.arms import NOTHING, ONCE, OURS, Arms, compared, raw_requests
from foldlog.adapters.simulate.play import Played, Playing, play
from foldlog.adapters.traces.model import Trace
from foldlog.adapters.traces.reader import load as load_trace

SHARED = Path(__file__).resolve().parents[1] / ".." / "shared" / "traces"
RECORDED = (
    "claude-code-a-opus46", "claude-code-b-sonnet45", "mini-swe-a-sqlfluff-deepseek", "pi-a-opus45",
)  # fmt: skip
RECOMPUTE = Path(__file__).parent / "adapters" / "billing" / "recompute.py"
EXECUTE = 0.65
"""The execute threshold of the default policy, as a part of the window."""
AT_MOST = {1.5: 0.80, 3.0: 0.85}
"""Times the threshold a session reaches, and what foldlog may cost then, in units of compacting once."""
BELOW, AT_MOST_BELOW = 0.9, 1.03
"""A session that ends here never reaches the threshold; foldlog may cost so much in units of doing nothing."""
TIMES = (*AT_MOST, BELOW)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sessions() -> dict[str, tuple[Trace, int]]:
    """The recorded sessions, read when first asked for: the trace, and tokens of its largest raw request."""
    return {}


def recorded(sessions: dict[str, tuple[Trace, int]], name: str, times: float) -> tuple[Trace, int]:
    """Return a trace, and the window on which its largest raw request is ``times`` the execute threshold."""
    if name not in sessions:
        path = SHARED / f"{name}.jsonl"
        if not path.exists():
            pytest.skip("the shared traces are not beside this checkout")
        trace = load_trace(path)
        peak = max(sum(tokens for _, _, tokens in raw.blocks) for raw in raw_requests(trace, tokenizer()))
        sessions[name] = trace, peak
    trace, peak = sessions[name]
    return trace, int(peak / (EXECUTE * times))


def played(trace: Trace, name: str, window: int, log: Path, *, audited: bool) -> tuple[Played, Arms]:
    """Play a trace on one profile, audit what came of it if asked, and bill it beside the baselines."""
    records: list[Record] = []
    profile, count = PROFILES[name], tokenizer()
    with foldlog.Engine.open("memory:", summarizer=None) as engine, log.open("wb") as out:
        how = Playing(window=window, profile=profile, summarizer=Extractive(count), wire_log=out, taken=records.append)
        told = play(engine, trace, how)
        if audited:
            audit = engine.audit(trace.name)
            assert (audit.passes, audit.differences) == (len(trace.steps), ())
    return told, compared(trace, records, profile, count, window)


def second_opinion(log: Path, profile: str) -> dict[str, Any]:
    """Bill a log with the second program, which is a process of its own and shares no code."""
    done = subprocess.run(
        [sys.executable, str(RECOMPUTE), str(log), profile], capture_output=True, check=True, text=True
    )
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.rule("BILL-12", "BILL-16", "CLI-27")
def test_a_recorded_session_costs_less(name, times, sessions, tmp_path, capsys):
    (trace, window), log = recorded(sessions, name, times), tmp_path / "wire.jsonl"
    told, arms = played(trace, "anthropic-5m", window, log, audited=True)
    ours = arms.bills[OURS]
    again = second_opinion(log, "anthropic-5m")
    with capsys.disabled():
        print(
            f"\n{name}, {times} × the threshold (window {window:,}): {arms.ratio(ONCE):.3f} of compacting once, "
            f"{arms.ratio(NOTHING):.3f} of doing nothing ({arms.bills[NOTHING].refusals} of its requests refused); "
            f"largest prompt {ours.largest_prompt:,}, {told.count('hard')} hard, {told.count('soft', 'soft+')} soft, "
            f"{told.compartments} stretches summarised; second opinion {again['cost'] / ours.cost - 1:+.5%}"
        )
    assert told.refusals == {}
    assert told.overflows == 0
    assert told.failed_summaries == 0
    assert told.usage == {"simulated": len(trace.steps)}
    assert ours.largest_prompt <= window
    assert again["cost"] == pytest.approx(ours.cost, rel=0.001)
    for sums, figure in (("read", ours.total.read), ("rewritten", ours.total.rewritten), ("output", ours.total.output)):
        assert again[sums] == pytest.approx(figure, rel=0.001)
    if times == BELOW:
        assert arms.ratio(NOTHING) <= AT_MOST_BELOW
    else:
        assert told.compartments > 0
        assert told.count("hard", "soft") > 1
        assert arms.ratio(ONCE) <= AT_MOST[times]


@pytest.mark.parametrize("profile", [name for name in PROFILES if name != "anthropic-5m"])
@pytest.mark.rule("BILL-4")
def test_other_profiles_are_printed(profile, sessions, tmp_path, capsys):
    """Nothing is promised for what they cost; the bill is that of the file all the same, and nothing is refused."""
    for name in RECORDED[:3]:  # the fourth takes as long as these together
        (trace, window), log = recorded(sessions, name, 1.5), tmp_path / "wire.jsonl"
        told, arms = played(trace, profile, window, log, audited=False)
        assert (told.refusals, told.overflows) == ({}, 0)
        with capsys.disabled():
            print(
                f"\n{profile}: {name} at 1.5: {arms.ratio(ONCE):.3f} of compacting once, "
                f"{arms.ratio(NOTHING):.3f} of doing nothing ({arms.bills[NOTHING].refusals} refused)",
                end="",
            )
        assert bill(load(log), PROFILES[profile]) == arms.bills[OURS]
    assert second_opinion(log, profile)["cost"] == pytest.approx(arms.bills[OURS].cost, rel=0.001)


@pytest.mark.rule("BILL-16")
def test_the_second_program_shares_no_code():
    """It is run without anything of ours on its path."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import runpy; runpy.run_path({str(RECOMPUTE)!r})"], capture_output=True
    )
    assert done.returncode == 0, done.stderr

"""The two baselines, by hand."""

import ast
from itertools import pairwise

import pytest

from foldlog.adapters.billing.baselines import Raw, compacting_once, doing_nothing
from foldlog.adapters.billing.bill import bill
from foldlog.adapters.billing.profiles import PROFILES
from foldlog.adapters.billing.records import stand_in
from foldlog.domain.errors import OptionError
from support.house import ROOT, module_files
from support.wire_logs import block, blocks

FRONT = (block("tool", 500), block("system", 900), block("environment", 200))


def growing(count, size=1_000):
    every = blocks(*[size] * count)
    return [Raw(1_000 * (k + 1), "claude-sonnet-4-5", every[: k + 1], 7) for k in range(count)]


def test_doing_nothing_sends_what_was_recorded_and_is_refused_above_the_window():
    """BILL-20: at the window it is sent, above it is not; the marks are the host's."""
    raw = growing(5)
    log = doing_nothing("s", raw, window=5_600, front=FRONT)
    assert [one.kind for one in log] == ["main"] * 4 + ["refused"]
    assert [one.blocks for one in log] == [FRONT + one.blocks for one in raw]
    assert [one.breakpoints for one in log[:3]] == [(1, 2, 3), (1, 2, 4), (1, 2, 5)]
    assert {(one.output_tokens, one.level) for one in log} == {(7, "defer")}
    got = bill(log, PROFILES["anthropic-5m"])
    assert (got.refusals, got.requests, got.total.read, got.total.first) == (1, 4, 2_600 + 3_600 + 4_600, 5_600)
    assert [one.kind for one in doing_nothing("s", raw, window=0)] == ["main"] * 5
    assert doing_nothing("s", raw, window=0)[0].breakpoints == (0,)


def test_compacting_once_replaces_everything_at_each_crossing():
    """BILL-21: over 95% of 10,000 a call reads the prompt and writes 4,000; then system, summary, and the new."""
    log = compacting_once("s", growing(16), window=10_000, front=FRONT)
    assert [one.tokens for one in log if one.kind == "main"] == [
        2_600, 3_600, 4_600, 5_600, 6_600, 7_600, 8_600, 5_600, 6_600, 7_600, 8_600, 5_600, 6_600, 7_600, 8_600, 5_600,
    ]  # fmt: skip
    calls = [one for one in log if one.kind == "summary"]
    assert [(one.tokens, one.output_tokens, one.at) for one in calls] == [
        (9_600, 4_000, at) for at in (8_000, 12_000, 16_000)
    ]
    hard = [one for one in log if one.level == "hard"]
    assert [(one.reasons, one.blocks[:3]) for one in hard] == [(("compaction",), FRONT)] * 3
    assert len({one.blocks[3] for one in hard}) == 3
    got = bill(log, PROFILES["anthropic-5m"])
    assert got.added_calls == 3
    # each call reads the 8,600 that the request before left in the cache and writes the new 1,000
    assert got.added.cost == pytest.approx(3 * (860 + 1_250 + 20_000))
    assert got.busts == ()


def test_a_prompt_at_the_crossing_is_not_over_it():
    """BILL-21."""
    raw = [Raw(1, "m", blocks(9_500)), Raw(2, "m", blocks(9_500, 1))]
    assert [one.kind for one in compacting_once("s", raw, window=10_000)] == ["main", "summary", "main"]


def test_the_call_reads_no_more_than_the_window_holds():
    """BILL-21: a jump over the window."""
    raw = [Raw(1, "m", blocks(5_000)), Raw(2, "m", blocks(5_000, 2_000, 50_000))]
    log = compacting_once("s", raw, window=10_000)
    assert [(one.kind, one.tokens) for one in log] == [("main", 5_000), ("summary", 7_000), ("main", 4_000)]


def test_a_host_that_goes_back_behind_the_summary_sends_its_messages_raw():
    """BILL-21."""
    raw = [*growing(10), Raw(11_000, "m", blocks(1_000, 1_000))]
    assert compacting_once("s", raw, window=10_000)[-1].blocks == blocks(1_000, 1_000)


def test_where_a_summary_does_not_help_nothing_is_compacted():
    """BILL-22: nor where the window is not known."""
    log = compacting_once("s", growing(3), window=5_000, front=stand_in(2_500))
    assert [(one.kind, one.tokens) for one in log] == [("main", 3_500), ("main", 4_500), ("refused", 5_500)]
    for call in (compacting_once, doing_nothing):
        with pytest.raises(OptionError):
            call("s", growing(3), window=-1)
    with pytest.raises(OptionError):
        compacting_once("s", growing(3), window=0)


def test_a_deferred_request_begins_with_the_one_before():
    """BILL-20, BILL-21: between compactions the prefix stands."""
    raw = growing(30)
    for log in (doing_nothing("s", raw, window=0), compacting_once("s", raw, window=9_000, front=FRONT)):
        own = [one for one in log if one.kind == "main"]
        assert all(b.level == "hard" or b.blocks[: len(a.blocks)] == a.blocks for a, b in pairwise(own))


def test_the_engine_does_not_import_the_baselines():
    """Convention 27: nor does anything else outside adapters."""
    others = {"tests", "scripts", "adapters"}
    paths = [path for path in module_files() if path.relative_to(ROOT).parts[0] not in others]
    assert len(paths) > 20
    for path in paths:
        names = {
            alias for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom)
            for alias in (node.module or "", *(one.name for one in node.names))
        }  # fmt: skip
        assert not any("billing" in name or "baselines" in name for name in names), path

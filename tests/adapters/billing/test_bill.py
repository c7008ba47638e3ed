"""The bill: hand-computed cases, sums, causes, and agreement with a second program that shares no code."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from foldlog.adapters.billing.bill import bill
from foldlog.adapters.billing.profiles import PROFILES
from foldlog.adapters.billing.records import dump, dumps
from support.wire_logs import block, blocks, random_log, record

PROGRAM = Path(__file__).with_name("recompute.py")
FIVE = PROFILES["anthropic-5m"]


def second_program():
    spec = importlib.util.spec_from_file_location("recompute", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.recompute


def tokens(sums):
    return (sums.read, sums.first, sums.rewritten, sums.resent, sums.uncached, sums.output)


def test_a_bill_by_hand():
    """BILL-12, BILL-13: a growing session, an idle gap, a rebuild, a tail that is not marked."""
    start = blocks(2_000, 8_000)
    grown = start + blocks(500, name="n")
    rebuilt = (start[0], block("m0", 300), start[1], grown[2])
    got = bill(
        [
            record(start, [0, -1], 0, output_tokens=10),
            record(grown, [0, 1], 60_000, output_tokens=20),
            record(grown, [0, -1], 360_001),
            record(rebuilt, [0, -1], 360_002, level="hard", reasons=("flush", "drops")),
        ],
        FIVE,
    )
    assert [tokens(line.sums) for line in got.lines] == [
        (0, 10_000, 0, 0, 0, 10),
        (10_000, 0, 0, 0, 500, 20),
        (0, 500, 10_000, 0, 0, 0),  # the 500 had been sent, and never cached
        (2_000, 300, 8_500, 0, 0, 0),
    ]
    assert [line.sums.cost for line in got.lines] == pytest.approx(
        [12_500 + 50, 1_000 + 500 + 100, 13_125, 200 + 375 + 10_625]
    )
    assert [(bust.index, bust.at, bust.level, bust.cause, bust.tokens) for bust in got.busts] == [
        (2, 360_001, "defer", "cache expired", 10_000),
        (3, 360_002, "hard", "flush, drops", 8_500),
    ]
    assert got.cost == pytest.approx(12_550 + 1_600 + 13_125 + 11_200)
    assert (got.requests, got.added_calls, got.refusals, got.largest_prompt) == (4, 0, 0, 10_800)
    assert [(row.level, row.cause, row.requests, row.busts) for row in got.rows] == [
        ("hard", "flush, drops", 1, 1),
        ("defer", "cache expired", 1, 1),
        ("defer", "first request", 1, 0),
        ("defer", "growth", 1, 0),
    ]


def test_what_is_paid_again_without_being_written():
    """BILL-13: a held block behind the last mark is sent at the price of input."""
    prompt = blocks(2_000, 8_000)
    got = bill([record(prompt, [-1]), record((block("x", 2_000), prompt[1]), [0])], FIVE)
    assert tokens(got.lines[1].sums) == (0, 2_000, 8_000, 8_000, 0, 0)
    assert got.lines[1].sums.cost == pytest.approx(2_500 + 8_000)


def test_only_what_was_cached_of_a_block_can_be_paid_again():
    """BILL-13: the 26 tokens behind the last whole step were never held."""
    prompt = blocks(1_050)
    got = bill([record(prompt), record((block("x", 200), *prompt))], PROFILES["openai"])
    assert tokens(got.lines[1].sums) == (0, 200, 1_024, 72, 26, 0)


def test_an_equal_text_is_not_paid_again_where_it_is_new():
    """BILL-13: a second "ok", and one that comes again after the first was compacted away."""
    system, ok = block("system", 2_000), block("ok", 1_000)
    got = bill(
        [
            record((system, ok), [-1]),
            record((system, ok, ok), [0, -1]),
            record((system, block("summary", 500)), [0, -1], level="hard"),
            record((system, block("summary", 500), ok), [0, -1]),
            record((system, block("changed", 500), ok), [0, -1], divergence=1),
        ],
        FIVE,
    )
    assert [line.sums.rewritten for line in got.lines] == [0, 0, 0, 0, 1_000]
    assert [line.cause for line in got.lines] == [
        "first request", "growth", "rebuild", "growth", "host changed the past",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        ({"at": 400_000, "level": "hard", "reasons": ("flush",)}, "cache expired"),
        ({"model": "claude-sonnet-5", "level": "hard", "reasons": ("model_change",)}, "model changed"),
        ({"level": "soft+", "reasons": ("flush",)}, "flush"),
        ({"level": "soft"}, "rebuild"),
        ({"divergence": 0, "reasons": ("held", "host_revised")}, "host_revised"),
        ({"divergence": 0}, "host changed the past"),
        ({}, "prefix changed"),
        ({"kind": "summary"}, "added call"),
    ],
)
def test_the_cause_of_a_bust(more, cause):
    """BILL-14: what was lost anyway first, then what foldlog decided, then the host."""
    prompt = blocks(2_000, 3_000)
    again = record((block("x", 2_000), prompt[1]), [-1], **{"at": 2_000, **more})
    got = bill([record(prompt, [-1]), again], FIVE)
    assert (got.busts[0].cause, got.busts[0].tokens) == (cause, 3_000)


def test_a_jump_past_the_lookback_is_named():
    """BILL-14, BILL-7."""
    prompt = blocks(2_000, 3_000)
    got = bill([record(prompt, [0, -1]), record(prompt + blocks(*[1] * 21, name="n"), [0, -1])], FIVE)
    assert [(bust.cause, bust.tokens) for bust in got.busts] == [("no mark near enough", 3_000)]


def test_added_calls_and_refusals():
    """BILL-12, BILL-15: a summary is billed and reads the session's cache; a refused request touches nothing."""
    prompt = blocks(2_000, 3_000)
    sent = [record(prompt, [-1]), record(prompt, [-1], 301_000)]
    refused = record((*prompt, block("huge", 1_000_000)), [-1], 150_000, kind="refused", reasons=("over",))
    without = bill(sent, FIVE)
    got = bill([sent[0], refused, sent[1]], FIVE)
    assert (got.refusals, got.requests, got.largest_prompt, got.cost) == (1, 2, 5_000, without.cost)
    assert (got.lines[1].prompt, got.lines[1].sums.cost, got.lines[1].cause) == (1_005_000, 0, "over")
    assert [line.number for line in got.lines] == [1, 2, 3]
    call = record(prompt, [-1], 150_000, kind="summary", level="", output_tokens=4_000)
    got = bill([sent[0], call, sent[1]], FIVE)
    assert (got.added_calls, got.requests) == (1, 2)
    assert got.added.cost == pytest.approx(500 + 20_000)
    assert got.cost == pytest.approx(6_250 + 20_500 + 500)  # and it refreshed the entry
    assert got.rows[-1].level == "summary"
    assert [line.number for line in got.lines] == [1, 2, 2]


@pytest.mark.slow
@pytest.mark.parametrize("name", PROFILES)
def test_rows_and_lines_sum_to_the_total(name):
    """BILL-12, BILL-13."""
    busts = 0
    for seed in range(40):
        log = random_log(seed)
        got = bill(log, PROFILES[name])
        for parts in ([line.sums for line in got.lines], [row.sums for row in got.rows]):
            assert [sum(column) for column in zip(*map(tokens, parts), strict=True)] == list(tokens(got.total))
            assert sum(part.cost for part in parts) == pytest.approx(got.cost)
        for line in got.lines:
            assert min(tokens(line.sums)) >= 0
            assert line.sums.prompt == (0 if line.kind == "refused" else log[line.index].tokens)
        assert sum(bust.tokens for bust in got.busts) == got.total.rewritten
        assert sum(row.requests for row in got.rows) == len(log)
        busts += len(got.busts)
    assert busts > 100


@pytest.mark.slow
@pytest.mark.parametrize("name", PROFILES)
def test_a_second_program_agrees(name):
    """BILL-16: sums equal, cost within 0.1% (issue 3), on random logs."""
    recompute, rewritten = second_program(), 0
    for seed in range(100, 140):
        log = random_log(seed)
        got = bill(log, PROFILES[name])
        told = recompute([json.loads(dumps(one)) for one in log], name)
        assert told["cost"] == pytest.approx(got.cost, rel=1e-3)
        assert told["added_cost"] == pytest.approx(got.added.cost, rel=1e-3)
        assert (told["read"], told["rewritten"], told["output"]) == (
            got.total.read, got.total.rewritten, got.total.output,
        )  # fmt: skip
        assert told["written"] == got.total.first + got.total.rewritten - got.total.resent
        assert told["uncached"] == got.total.uncached + got.total.resent
        assert (told["requests"], told["added"], told["refused"]) == (got.requests, got.added_calls, got.refusals)
        rewritten += got.total.rewritten
    assert rewritten > 0


def test_the_second_program_reads_a_file(tmp_path):
    """BILL-16: as a program of its own, that finds nothing of ours."""
    log = random_log(7)
    dump(tmp_path / "log.jsonl", log)
    done = subprocess.run(
        [sys.executable, "-I", "-S", PROGRAM, tmp_path / "log.jsonl", "anthropic-1h"],
        capture_output=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert json.loads(done.stdout)["cost"] == pytest.approx(bill(log, PROFILES["anthropic-1h"]).cost, rel=1e-3)

"""Decay rendering: the curve and its vectors, pressure, the renderer within a budget (``history.md`` 3, 2.2, 2.7)."""

from __future__ import annotations

import json
import random
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from foldlog.projections import decay
from foldlog.projections.decay import Row

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "specs" / "vectors" / "decay.json").read_text("utf-8")
)
GRID = VECTORS["grid"]
WORDS = re.compile(r"\s+|\S+")


def count(text: str) -> int:
    """A tokenizer of blanks and words: additive wherever a blank line ends."""
    return len(WORDS.findall(text))


def exact_tier(index: int, importance: int, pressure: str) -> int:
    """The tier by rational arithmetic alone: z < e, both sides to the 25th power, where the curve has no root left."""
    age = (Fraction(index - 1) * Fraction(pressure)) ** 25
    life = Fraction(24) ** 25 * Fraction(2) ** (importance - 50)
    edges = [Fraction(edge) ** 25 * life for edge in ("0.201", "0.729", "1.322", "2.587")]
    return 1 + sum(age >= edge for edge in edges)


def row(
    first: int, last: int, *, importance: int | None = 50, words: tuple[int, ...] = (40, 20, 8, 3), **more: Any
) -> Row:
    tiers = tuple(" ".join(f"t{tier}w{n}" for n in range(size)) for tier, size in enumerate(words, 1))
    given = {"title": f"Part {first}", "tiers": tiers, "tokens": (0, 0, 0, 0), "importance": importance, **more}
    return measured(Row(first=first, last=last, **given))


def measured(bare: Row) -> Row:
    return structs.replace(bare, tokens=decay.measure(bare, count))


def session(number: int, **more: Any) -> list[Row]:
    return [row(10 * n + 1, 10 * n + 10, **more) for n in range(number)]


# ------------------------------------------------------------------------- curve


@pytest.mark.parametrize(("index", "importance", "pressure", "age", "tier"), VECTORS["tiers"])
def test_printed_tiers(index, importance, pressure, age, tier):
    """DECAY-1, DECAY-2."""
    assert decay.tier(index, importance, pressure) == tier
    assert decay.half_lives(index, importance, pressure) == pytest.approx(age, abs=5e-7)


@pytest.mark.parametrize(("pressure", "importance", "two", "three", "four", "archived"), VECTORS["first"])
def test_first_index_of_each_tier(pressure, importance, two, three, four, archived):
    """DECAY-2."""
    for tier, first in enumerate((two, three, four, archived), 2):
        assert decay.tier(first, importance, pressure) == tier
        assert decay.tier(first - 1, importance, pressure) < tier


def test_the_grid():
    """DECAY-2: 1,008 cases, by the product, by exact arithmetic, and as committed for other implementations."""
    cases = 0
    for importance, rows in zip(GRID["importances"], GRID["tiers"], strict=True):
        for pressure, digits in zip(GRID["pressures"], rows, strict=True):
            for index, digit in zip(GRID["indexes"], digits, strict=True):
                wanted = exact_tier(index, importance, str(pressure))
                assert (decay.tier(index, importance, pressure), int(digit)) == (wanted, wanted)
                cases += 1
    assert cases == 1_008


def test_the_edges_belong_to_the_older_tier(monkeypatch):
    """DECAY-2: comparisons are strict."""
    exactly = decay.half_lives(7, 50, 1.0)
    monkeypatch.setattr(decay, "EDGES", (exactly, 0.729, 1.322, 2.587))
    assert decay.tier(7, 50, 1.0) == 2


def test_importance_and_pressure_are_held_to_their_ranges():
    """DECAY-1."""
    assert decay.half_lives(9, 1000, 1.0) == decay.half_lives(9, 100, 1.0)
    assert decay.half_lives(9, -5, 1.0) == decay.half_lives(9, 1, 1.0)
    assert decay.half_lives(9, None, 1.0) == decay.half_lives(9, 50, 1.0)
    assert decay.half_lives(9, 50, 0.0) == decay.half_lives(9, 50, 0.1)
    assert decay.half_lives(0, 50, 1.0) == 0
    assert decay.half_lives(9, 75, 1.0) == decay.half_lives(9, 50, 1.0) / 2


@pytest.mark.parametrize(("number", "repeated", "budget", "one", "two"), VECTORS["pressure"])
def test_pressure(number, repeated, budget, one, two):
    """DECAY-3."""
    importances = [repeated[n % len(repeated)] for n in range(number)]
    assert decay.pressure(importances, budget) == pytest.approx(one, rel=1e-12)
    assert decay.pressure(importances, budget, passes=2) == pytest.approx(two, rel=1e-9)


def test_no_budget_is_no_pressure():
    """DECAY-3."""
    assert decay.pressure([50] * 9, 0) == decay.pressure([50] * 9, -1) == 1.0
    assert decay.pressure([], 100) == 0.1


# -------------------------------------------------------------------------- text


def test_a_block_is_a_heading_and_a_body():
    """DECAY-4."""
    one = row(3, 9, title="Lexer & <parser>\r\n\u2028fixed", tiers=("a\n## b\n### c\n ## d\n&lt;", "x", "", "  "))
    assert decay.block(one, 1) == "## 3-9 · Lexer &amp; &lt;parser&gt; fixed\na\n ## b\n### c\n ## d\n&amp;lt;"
    assert decay.block(one, 2, "2026-05-01→03") == "## 3-9 · 2026-05-01→03 · Lexer &amp; &lt;parser&gt; fixed\nx"
    assert decay.block(one, 3) == decay.block(one, 4) == "## 3-9 · Lexer &amp; &lt;parser&gt; fixed"


@given(st.lists(st.text(alphabet=st.sampled_from("#& <>/\n\r\u2028ab1-·")), min_size=5, max_size=5))
def test_nothing_in_a_summary_is_structure(texts):
    """DECAY-4, PROP-10: whatever title and tiers hold, only real headings begin a line with ``## ``; no tag is left."""
    one = Row(1, 2, texts[0] or "t", (texts[1] or "x", *texts[2:]), (0, 0, 0, 0))
    for tier in (1, 2, 3, 4):
        block = decay.block(one, tier)
        assert "<" not in block
        assert ">" not in block
        lines = re.split("[\n\r\u2028]", block)
        assert [number for number, line in enumerate(lines) if line.startswith("## ")] == [0]


def test_a_missing_tier_is_the_nearest_denser_one():
    """DECAY-5."""
    assert decay.block(row(1, 2, tiers=("one", None, None, None)), 4).endswith("\none")
    assert decay.block(row(1, 2, tiers=("one", "two", "", None)), 4).endswith("\ntwo")
    assert decay.block(row(1, 2, tiers=("one", "two", "", "")), 3) == "## 1-2 · Part 1"


def test_flat_rows():
    """DECAY-5: whole, 1,200 and 420 UTF-16 units, heading alone; never half a surrogate pair."""
    text = "x" * 419 + "😀" + "y" * 1_000
    for legacy in (True, False):
        flat = row(1, 2, tiers=(None,) * 4, content=text, legacy=legacy)
        bodies = [decay.block(flat, tier).partition("\n")[2] for tier in (1, 2, 3, 4)]
        assert bodies == [text, text[:1_199] + "…", "x" * 419 + "…", ""]


def test_legacy_rows_keep_out_of_the_curve():
    """DECAY-5."""
    old = [row(1, 2, tiers=(None,) * 4, content=f"{who}: said", legacy=True, title="old") for who in "UA"]
    rows = [measured(Row(n, n, "old", o.tiers, o.tokens, 50, o.content, True)) for n, o in enumerate(old, 1)]
    shown = decay.render([*rows, *(row(n, n) for n in range(3, 8))], 10_000, count)
    assert [block.tier for block in shown.blocks] == [3, 4, 1, 1, 1, 1, 1]
    assert shown.pressure == decay.pressure([50] * 5, 10_000)


def test_rows_that_only_move_the_offset_are_not_rendered():
    """DECAY-5."""
    empty = Row(1, 5, "", ("", "", "", ""), (0, 0, 0, 0))
    assert decay.render([empty], 100, count).text == ""
    assert decay.render([empty, row(6, 9)], 1_000, count).text == decay.render([row(6, 9)], 1_000, count).text
    assert decay.history_block("") == "<session-history></session-history>"
    assert decay.history_block("## x") == "<session-history>\n## x\n</session-history>"


# ---------------------------------------------------------------------- renderer


def tiers_of(shown: decay.Rendered, rows: list[Row]) -> list[int]:
    by = {block.first: block.tier for block in shown.blocks}
    return [by.get(one.first, 5) for one in rows]


def by_the_book(rows: list[Row], budget: float) -> tuple[list[int], str]:
    """Section 3.3 step by step, every text counted in full after each demotion."""
    tight = decay.pressure([one.importance for one in reversed(rows)], budget)
    tiers = [decay.tier(len(rows) - place, one.importance, tight) for place, one in enumerate(rows)]

    def blocks() -> list[str]:
        return [decay.block(one, tier) for one, tier in zip(rows, tiers, strict=True) if tier < 5]

    for over in (lambda: sum(map(count, blocks())) > budget, lambda: count("\n\n".join(blocks())) > budget):
        while over():
            place = next(place for place, tier in enumerate(tiers) if tier < 5)
            tiers[place] += 1
    return tiers, "\n\n".join(blocks())


@given(
    sizes=st.lists(st.tuples(*[st.integers(0, 60)] * 4, st.integers(1, 100)), max_size=12),
    budget=st.integers(1, 900),
    seed=st.randoms(use_true_random=False),
)
def test_the_renderer_does_what_the_book_says(sizes, budget, seed):
    """DECAY-6, DECAY-7 and HISTORY invariant 6: also for tiers that do not shrink, in any order of rows."""
    rows = [row(n, n, importance=size[4], words=(size[0] + 1, *size[1:4])) for n, size in enumerate(sizes, 1)]
    shuffled = list(rows)
    seed.shuffle(shuffled)
    shown = decay.render(shuffled, budget, count)
    assert (tiers_of(shown, rows), shown.text) == by_the_book(rows, budget)
    assert shown.tokens == count(shown.text) <= budget
    assert shown.demoted <= 5 * len(rows)
    assert shown.archived == len(rows) - len(shown.blocks)


def test_every_budget_gives_what_the_book_says():
    """DECAY-6, DECAY-7: also where only the blank lines between the blocks are too much."""
    rows = [row(n, n, importance=100, words=(9, 7, 6, 5)) for n in range(1, 12)]
    for budget in range(1, 300):
        shown = decay.render(rows, budget, count)
        assert (tiers_of(shown, rows), shown.text) == by_the_book(rows, budget), budget


def test_a_tokenizer_that_does_not_add_up():
    """DECAY-6: what is returned was counted, and fits."""

    def coarse(text: str) -> int:
        return len(text) // 11 + 10 * text.count("\n\n## ")

    bare = [row(n, n, importance=100, words=(400, 399, 397, 396)) for n in range(1, 12)]
    rows = [structs.replace(one, tokens=decay.measure(one, coarse)) for one in bare]
    whole = sum(one.tokens[0] for one in rows)
    for budget in range(whole - 300, whole + 200, 10):
        shown = decay.render(rows, budget, coarse)
        assert shown.tokens == coarse(shown.text) <= budget


def test_the_oldest_goes_first_and_wholly():
    """DECAY-6."""
    rows = session(4, words=(4_000, 3_000, 1_000, 10))  # so large that the typical costs make no pressure
    whole = sum(one.tokens[0] for one in rows)
    assert tiers_of(decay.render(rows, whole + 10, count), rows) == [1, 1, 1, 1]
    assert tiers_of(decay.render(rows, whole - 4_000, count), rows) == [3, 1, 1, 1]
    assert tiers_of(decay.render(rows, whole - rows[0].tokens[0] - 3_000, count), rows) == [5, 3, 1, 1]


def test_dates_count_although_they_were_not_measured():
    """DECAY-6: what decides at the end is the joined text."""
    rows = session(3, words=(900, 600, 300, 10))
    whole = count(decay.render(rows, 10_000, count).text)
    dated = decay.render(rows, whole, count, dates=lambda _: "2026-05-01 and later")
    assert dated.demoted > 0
    assert dated.tokens == count(dated.text) <= whole
    assert "· 2026-05-01 and later ·" in dated.text


@pytest.mark.parametrize("budget", [0, -5])
def test_without_a_budget_nothing_is_demoted(budget):
    """DECAY-6."""
    shown = decay.render(session(80), budget, count)
    assert (shown.demoted, shown.pressure) == (0, 1.0)
    assert [tier for tier in (1, 2, 3, 4) for block in shown.blocks if block.tier == tier].count(1) == 5


def test_over_budget_retries():
    """DECAY-8: the element around the text makes a small history too large; each retry asks for 1.15 times less."""
    rows = session(6)
    seen: list[str] = []

    def heavy(text: str) -> int:
        seen.append(text)
        return count(text) + (200 if text.startswith("<session-history>") else 0)

    shown = decay.render_within(rows, 300, heavy)
    assert shown.retries == 3
    assert shown.budget == pytest.approx(300 / 1.15**3)
    assert count(decay.history_block(shown.text)) + 200 > 1.05 * 300  # kept although it is still over
    assert shown.text == decay.render(rows, shown.budget, count).text
    assert decay.render_within(rows, 10_000, heavy).retries == 0
    assert decay.render_within(rows, 300, count) == decay.render(rows, 300, count)


def test_counting_is_left_to_publication():
    """DECAY-7: of 500 compartments only what is demoted by the joined text is counted again."""
    rows = [row(n, n, importance=1 + n * 7 % 100) for n in range(1, 501)]
    random.Random(3).shuffle(rows)
    counted: list[int] = []

    def counting(text: str) -> int:
        counted.append(len(text))
        return count(text)

    shown = decay.render(rows, 3_000, counting)
    assert shown.tokens <= 3_000
    assert sum(counted) < 4 * len(shown.text) + 2 * 600 * 40
    assert len(counted) < 100

"""Sizes derived from window, threshold and usage (``history.md`` 4.1)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldlog.domain.history import budgets
from foldlog.domain.policy import make_policy, resolve
from foldlog.domain.window import bands, measure


@pytest.mark.parametrize(("usage", "tail"), [(0, 39_000), (6_500, 13_650), (9_500, 10_400), (-1, 39_000)])
def test_worked_figures(usage, tail):
    """HIST-1."""
    found = budgets.figures(200_000, 6_500, usage)
    assert (found.usable, found.trigger, found.reserve, found.headroom) == (130_000, 6_500, 2_600, 9_100)
    assert (found.ceiling, found.floor, found.tail, found.scan) == (52_000, 10_400, tail, 19_500)


@pytest.mark.parametrize(
    ("limit", "threshold", "trigger", "chunk", "history"),
    [
        (0, 6_500, 5_000, 8_000, 60_000),
        (-7, 0, 5_000, 8_000, 60_000),
        (1_000, 6_500, 5_000, 8_000, 97),
        (32_001, 6_500, 5_000, 8_000, 3_120),
        (200_000, 6_500, 6_500, 50_000, 19_500),
        (128_000, 8_000, 5_120, 32_000, 15_360),
        (2_000_000, 9_000, 50_000, 50_000, 270_000),
        (200_010, 6_500, 6_500, 50_000, 19_500),
        (200_020, 6_500, 6_501, 50_000, 19_501),
        (160_002, 6_500, 5_200, 40_001, 15_600),
    ],
)
def test_trigger_chunk_and_history(limit, threshold, trigger, chunk, history):
    """HIST-1."""
    assert budgets.trigger(limit, threshold) == trigger
    assert budgets.chunk(limit) == chunk
    assert budgets.history(limit, threshold) == history


def test_a_history_share_is_held_to_its_range():
    """HIST-1."""
    assert budgets.history(100_000, 5_000, 1) == budgets.history(100_000, 5_000, 500) == 2_500
    assert budgets.history(100_000, 5_000, 9_999) == 25_000


@pytest.mark.parametrize(
    ("usage", "cap"),
    [(0, 78_000), (7_999, 32_500), (8_000, 45_500), (9_499, 45_500), (9_500, 65_000), (12_000, 65_000)],
)
def test_cap_steps(usage, cap):
    """HIST-2."""
    assert budgets.figures(200_000, 6_500, usage).cap == cap


def test_scaled_tail():
    """HIST-1, HIST-2."""
    whole, half, quarter = (budgets.figures(200_000, 6_500, 9_500, scale) for scale in (100, 50, 25))
    assert [whole.scaled, half.scaled, quarter.scaled] == [10_400, 5_200, 2_600]
    assert [whole.force_head, half.force_head, quarter.force_head] == [1_000, 650, 325]
    assert [budgets.figures(200_000, 6_500, 0, scale).forced for scale in (100, 50)] == [False, True]


@pytest.mark.parametrize("threshold", [20, 65, 84, 85, 89, 90])
def test_the_force_band_is_the_window_s(threshold):
    """HIST-2: one band for the pass and for the historian."""
    settings = resolve(make_policy({"execute_threshold_percentage": threshold}), "")
    force = bands(settings, measure(200_000, 0, settings, "other")).force
    assert budgets.force_band(settings.threshold) == force
    assert [budgets.figures(200_000, settings.threshold, usage).forced for usage in (force - 1, force)] == [False, True]


@given(st.integers(-5, 3_000_000), st.integers(0, 9_000), st.integers(-1, 12_000), st.sampled_from([100, 50, 25]))
def test_the_sizes_are_in_order(limit, threshold, usage, scale):
    """HIST-1: against the same formulas in floating point, and each inside its bounds."""
    found = budgets.figures(limit, threshold, usage, scale)
    wanted = (limit if limit > 0 else 128_000) * (threshold or 6_500) / 10_000
    assert abs(found.usable - wanted) <= 1
    raw = 0.3 * found.usable * (1 - min(max(usage, 0), 10_000) / 10_000)
    wanted = min(found.ceiling, max(min(found.floor, found.ceiling), math.floor(raw + 0.5)))
    assert abs(found.tail - wanted) <= 1
    assert 1 <= found.scaled <= found.tail <= found.ceiling <= max(1, found.usable)
    assert found.tail < found.cap <= 750_000
    assert 5_000 <= found.trigger <= 50_000
    assert 1 <= found.force_head <= 1_000

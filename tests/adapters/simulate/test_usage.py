"""The usage a played session reports (specs/cli.md, "Recorded usage, as far as it applies")."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldlog.adapters.simulate.usage import Meter, Told, prompt
from foldlog.adapters.traces.model import Usage

OVERHEAD = 30_000


def recorded(tokens: int, ratio: float = 1.2, write: int = 500) -> Usage:
    """What a provider with tools and system of its own says of ``tokens`` local tokens."""
    total = OVERHEAD + int(tokens * ratio)
    return Usage(3, total - 3 - write, write, 100)


@pytest.mark.rule("CLI-2")
def test_while_nothing_is_dropped_it_is_told_as_it_stands():
    meter = Meter()
    for tokens in (1_000, 5_000, 40_000):
        assert meter.tell(recorded(tokens), tokens, 0) == Told(recorded(tokens), "recorded")


@pytest.mark.rule("CLI-2")
def test_what_was_dropped_is_taken_off_in_the_providers_count():
    meter = Meter()
    meter.tell(recorded(1_000), 1_000, 0)
    meter.tell(recorded(50_000), 50_000, 0)
    told = meter.tell(recorded(60_000), 20_000, 40_000)
    assert told.source == "reduced"
    assert abs(prompt(told.usage) - (OVERHEAD + 24_000)) < 100, "the overhead no local count sees stays"
    assert (told.usage.input, told.usage.cache_write, told.usage.output) == (3, 500, 100)


@pytest.mark.rule("CLI-2")
def test_where_the_host_compacted_it_is_carried_on():
    meter = Meter()
    meter.tell(recorded(1_000), 1_000, 0)
    meter.tell(recorded(100_000), 100_000, 0)
    told = meter.tell(recorded(8_000), 101_000, 0)
    assert told.source == "estimated"
    assert abs(prompt(told.usage) - (OVERHEAD + 121_200)) < 100
    later = meter.tell(recorded(90_000), 150_000, 0)
    assert later.source == "estimated", "it does not apply again"
    assert prompt(later.usage) > prompt(told.usage)


def test_a_small_fall_is_no_compaction():
    meter = Meter()
    meter.tell(recorded(40_000), 40_000, 0)
    assert meter.tell(recorded(33_000), 41_000, 0).source == "recorded"


@pytest.mark.rule("CLI-2")
def test_without_figures_nothing_is_invented():
    meter = Meter()
    assert meter.tell(None, 1_000, 0) is None
    assert meter.tell(Usage(output=7), 1_000, 0) == Told(Usage(output=7), "none")
    meter.tell(recorded(10_000), 10_000, 0)
    assert meter.tell(None, 12_000, 0).source == "estimated"


def test_figures_that_were_not_reported_stay_so():
    meter = Meter()
    chat = Usage(input=700, cache_read=50_000, output=5)
    meter.tell(chat, 40_000, 0)
    told = meter.tell(chat, 20_000, 20_000)
    assert told.usage.cache_write == -1
    assert told.usage.input == 700
    lone = Meter()
    lone.tell(Usage(input=50_000), 40_000, 0)
    assert lone.tell(Usage(input=50_000), 20_000, 20_000).usage == Usage(input=25_000)


counts = st.integers(-1, 300_000)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.none() | st.builds(Usage, counts, counts, counts, counts),
            st.integers(0, 400_000),
            st.integers(0, 400_000),
        )
    )
)
@pytest.mark.rule("CLI-8")
def test_no_figure_is_ever_negative_or_larger_than_the_whole(steps):
    meter = Meter()
    for usage, ours, removed in steps:
        told = meter.tell(usage, ours, removed)
        if told is None:
            continue
        figures = (told.usage.input, told.usage.cache_read, told.usage.cache_write, told.usage.output)
        assert all(figure >= -1 for figure in figures)
        if told.source in ("recorded", "reduced"):
            assert 0 <= prompt(told.usage) <= prompt(usage)
        if told.source == "reduced":
            unreported = [name for name in ("input", "cache_write") if getattr(usage, name) < 0]
            assert all(
                getattr(told.usage, name) == -1 for name in unreported if name != "input" or usage.cache_read >= 0
            )

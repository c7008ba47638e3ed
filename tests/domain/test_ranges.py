"""Tag lists such as 3-5,8."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldlog.domain.errors import RangeError
from foldlog.domain.ranges import LIMIT, parse_tags, show_tags

VECTORS = json.loads((Path(__file__).resolve().parents[2] / "specs/vectors/ranges.json").read_text(encoding="utf-8"))


@pytest.mark.rule("REDUCE-1")
@pytest.mark.parametrize(("given_text", "named"), VECTORS["good"])
def test_lists_that_name_tags(given_text: str, named: list[int]):
    assert parse_tags(given_text) == tuple(named)


@pytest.mark.rule("REDUCE-2")
@pytest.mark.parametrize("given_text", VECTORS["bad"])
def test_lists_that_are_refused(given_text: str):
    with pytest.raises(RangeError) as caught:
        parse_tags(given_text)
    assert caught.value.code == "INVALID_RANGE"


@pytest.mark.rule("REDUCE-2")
def test_a_thousand_numbers_and_no_more():
    for long in ("2" * 5_000, "9" * 5_000 + "-1", "x" * 5_000):
        with pytest.raises(RangeError) as caught:
            parse_tags(long)
        assert len(str(caught.value)) < 500  # an agent reads it
    assert [len(parse_tags(full)) for full in VECTORS["full"]] == [LIMIT] * len(VECTORS["full"])
    for over in VECTORS["over"]:
        with pytest.raises(RangeError, match="1000"):
            parse_tags(over)


@pytest.mark.rule("REDUCE-2")
@pytest.mark.parametrize("wrong", [None, 5, 5.0, True, b"3", [3], {"drop": "3"}, object()])
def test_what_is_no_text_is_refused(wrong: object):
    with pytest.raises(RangeError):
        parse_tags(wrong)


def test_the_error_names_the_item():
    with pytest.raises(RangeError) as caught:
        parse_tags("3,4x,5")
    assert caught.value.value == "4x"


@settings(max_examples=150)
@given(st.sets(st.integers(1, 10**9 - 1), min_size=1, max_size=40))
def test_what_is_shown_is_read_back(tags: set[int]):
    """REDUCE-1: the form foldlog shows numbers in is one an agent may copy."""
    assert parse_tags(show_tags(sorted(tags))) == tuple(sorted(tags))


@settings(max_examples=300)
@given(st.text(alphabet="0123456789-,§ \t٣²x", max_size=20))
def test_any_text_is_numbers_in_order_or_a_range_error(text: str):
    """REDUCE-2."""
    try:
        found = parse_tags(text)
    except RangeError:
        return
    assert found
    assert list(found) == sorted(set(found))
    assert found[0] >= 1

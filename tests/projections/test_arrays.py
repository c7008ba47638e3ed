"""A host's whole array taken in again: only what is the same to the letter is not encoded anew."""

from __future__ import annotations

import copy
import math
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldlog.domain.errors import MessageError
from foldlog.projections.arrays import STRETCH, Taken, take
from foldlog.projections.intake import Reader

READER = Reader(len)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.characters(categories=["Cs"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
MESSAGES = st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), max_size=2 * STRETCH + 3)


class Number(IntEnum):
    """A number that is no plain one."""

    ONE = 1


def array(messages: list[Any], last: Taken | None = None) -> Taken:
    """Take an array and hold it against encoding each message alone."""
    taken = READER.array(messages, last)
    assert taken.raws == READER.raws(messages)
    return taken


def content(value: Any) -> dict[str, Any]:
    """Return a message with a value deep inside."""
    return {"role": "user", "content": [{"type": "tool_use", "input": {"a": value}}]}


@given(MESSAGES, MESSAGES, st.data())
def test_the_bytes_are_those_of_each_message_alone(first: list[Any], more: list[Any], data: st.DataObject) -> None:
    last = array(copy.deepcopy(first))
    now = [*first, *more]
    if now:  # in place, as a host may
        place = data.draw(st.integers(0, len(now) - 1))
        now[place]["changed"] = data.draw(VALUES)
    again = array(now, last)
    cut = data.draw(st.integers(0, len(now)))
    array(now[:cut], again)


ALIKE = (0, False, 0.0, -0.0, 1, True, 1.0, Number.ONE, None, math.nan, math.inf, "1", "", [], {}, 2**63, 2.0**63)


@pytest.mark.parametrize("before", ALIKE)
@pytest.mark.parametrize("after", ALIKE)
def test_values_python_or_json_take_for_the_same_are_told_apart(before: Any, after: Any) -> None:
    array([content(after)], array([content(before)]))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"1": 0}, {"1": 0.0}),
        ("\ud800", "\udfff"),
        ("é", "e\u0301"),
        ([1, [2]], [[1], 2]),
    ],
)
def test_order_and_form_are_told_apart(before: Any, after: Any) -> None:
    array([content(after)], array([content(before)]))


@pytest.mark.parametrize("odd", [(1, 2), b"x", bytearray(b"x"), {1: 2}, {1, 2}, memoryview(b"x"), 1j])
def test_what_is_no_json_is_refused_as_before(odd: Any) -> None:
    last = array([content([1, 2]), content("x"), content({"1": 2})])
    messages = [content(odd), content("x"), content({"1": 2})]
    try:
        alone = READER.raws(messages)
    except MessageError as refused:
        with pytest.raises(MessageError) as found:
            READER.array(messages, last)
        assert (found.value.message, found.value.where) == (refused.message, refused.where)
    else:
        assert READER.array(messages, last).raws == alone


def test_what_did_not_change_is_not_encoded_again() -> None:
    messages = [content(n) for n in range(3 * STRETCH + 5)]
    asked: list[int] = []

    def encode(some: list[Any], index: int) -> list[bytes]:
        asked.extend(range(index, index + len(some)))
        return READER.raws(some)

    last = take(copy.deepcopy(messages), encode, None)
    asked.clear()
    messages[STRETCH]["role"] = "assistant"
    now = take([*messages, content("new")], encode, last)
    assert asked == [*range(STRETCH, 2 * STRETCH), len(messages)]
    assert all(a is b for a, b in zip(now.raws[:STRETCH], last.raws, strict=False))


def test_an_array_of_json_is_taken_as_it_is() -> None:
    raws = READER.raws([content(n) for n in range(3)])
    assert array(raws, array([content(n) for n in range(3)])) == Taken(raws, [])


@pytest.mark.parametrize("odd", [bytearray(b"x"), memoryview(b"x"), (1,), {1: 2}, math.nan])
def test_what_does_not_read_back_as_it_is_is_encoded_every_time(odd: Any) -> None:
    taken = take([content(odd)], lambda _some, _index: [b'{"role":"user","content":"x"}'], None)
    assert taken.digests == [b""]

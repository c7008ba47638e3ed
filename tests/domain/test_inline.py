"""Reasoning in tags of the model's own: what of a text is such a block, and what only looks like one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldlog.domain.inline import without


@pytest.mark.rule("THINK-7")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<think>hm</think>\nDone.", "Done."),
        ("<thinking>\nhm\n\nso\n</thinking>\n\nDone.", "Done."),
        ("Look.\n\n<think>hm</think>\n\nDone.", "Look.\n\nDone."),
        ("Look. <think>hm</think> Done.", "Look. Done."),
        ("Look. <think>hm</think>\n```\ncode\n```", "Look. \n```\ncode\n```"),
        ("<think>hm</think>\n\n    code", "    code"),
        ("  <think>hm</think>\nDone.", "Done."),
        ("<think>a</think><think>b</think>\nDone.", "Done."),
        ("Done.\n<think>hm</think>\n", "Done.\n"),
        ("<think>a<thinking>b</thinking>c</think>d", "d"),
        ("<think>a<thinking>b</think>c</thinking>d", "d"),
        ("<think>it's ` and ``` odd</think>`Done`", "`Done`"),
        ("<think></think>", ""),
    ],
)
def test_closed_blocks_leave_with_the_white_space_behind_them(before: str, after: str):
    assert without(before) == after


@pytest.mark.rule("THINK-7")
@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "<think>never closed",
        "never opened</think> Done.",
        "<think>a mention of <think> only</think> Done.",
        "Write `<think>` before and `</think>` behind it.",
        "A span ``<think>`x`</think>`` of code",
        "```xml\n<think>\n</think>\n```\nDone.",
        "~~~\n```\n<think>x</think>\n~~~",
        "````\n```\n<think>x</think>\n```\n````",
        "1. ```\n   <think>x</think>\n   ```",
        "> ```\n> <think>x</think>\n> ```",
        "```\n<think>x</think> never ends",
        "<thinker>x</thinker>",
    ],
)
def test_code_and_tags_that_do_not_pair_stay(text: str):
    assert without(text) is text


@pytest.mark.rule("THINK-7")
def test_behind_a_tag_that_nothing_closes_all_stays():
    assert without("<think>a</think>b <think>c </think> d <think>e") == "b d <think>e"
    assert without("<think>a</think>b <think>c <think>d</think> e") == "b <think>c <think>d</think> e"


_WORDS = st.text(alphabet="ab .\n", max_size=8)
_BLOCK = st.recursive(_WORDS, lambda inner: st.tuples(st.sampled_from(["think", "thinking"]), inner, _WORDS))
_PIECES = st.one_of(
    st.tuples(st.just("said"), st.text(alphabet="ab.", min_size=1, max_size=8)),
    st.tuples(
        st.just("code"), st.sampled_from(["`<think>x</think>`", "``</think>``", "\n```\n<think>x</think>\n```\n"])
    ),
    st.tuples(st.just("block"), st.tuples(st.sampled_from(["think", "thinking"]), _BLOCK, _WORDS)),
)


def _write(block: object) -> str:
    if isinstance(block, str):
        return block
    name, inner, after = block  # type: ignore[misc]
    return f"<{name}>{_write(inner)}{after}</{name}>"


@given(st.lists(_PIECES, max_size=8))
@pytest.mark.rule("THINK-7")
def test_of_any_well_formed_text_all_but_the_blocks_is_left(pieces: list[tuple[str, object]]):
    text = "|".join(_write(one) for _, one in pieces)
    wanted = "|".join("" if kind == "block" else str(one) for kind, one in pieces)
    assert without(text) == wanted


_LOOSE = st.lists(
    st.sampled_from(["<think>", "</think>", "<thinking>", "</thinking>", "`", "```", "~~~", "\n", "a", " "])
)


@given(_LOOSE)
@pytest.mark.rule("THINK-7")
def test_of_any_text_what_is_left_stood_there_in_this_order(pieces: list[str]):
    text = "".join(pieces)
    left = iter(text)
    assert all(char in left for char in without(text))


def test_the_cost_grows_with_the_text_alone():
    """Not with its square: no piece is looked for again and again."""
    for text in ("<think>" * 20_000 + "</think>", "x<think>a</think> " * 20_000, "`a\n\n" * 20_000 + "</think>"):
        assert len(without(text)) <= len(text)

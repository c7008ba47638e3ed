"""What a person's words are looked up by: theirs alone, and not too many."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldlog.domain.passes.words.query import ATOMS, DROPPED, LOOKED, TOKENS, plain_words, query, stacked


@pytest.mark.rule("HINT-3")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fix  the\n\tparser", "fix the parser"),
        ("<system-reminder>\nbe kind\n</system-reminder>\nfix it", "fix it"),
        ('a <instruction name="deferred_notes">2 notes</instruction> b', "a b"),
        ("a <!-- +12m --> b <!-- c", "a b c"),
        ("<b>bold</b> <a href='x'>link</a>", "bold link"),
        ("<Instruction>gone</INSTRUCTION> stays", "stays"),
        ("<instruction>never closed", "never closed"),
        ("closed only</system-reminder> here", "closed only here"),
        ("<instruction>a <ctx-search-auto>b</instruction> c</ctx-search-auto> d", "c d"),
        ("<instruction>a <instruction>b</instruction> c</instruction> d", "d"),
        ("a < b and c > d", "a < b and c > d"),
        ("§12§ see §3§", "see"),
        ("<ctx-search-hint>\n- x\n</ctx-search-hint> y", "y"),
        ("[Category+Skill Reminder] do this\n\nand mine", "and mine"),
        ("<sidekick-augmentation>x</sidekick-augmentation><ctx-search-auto>y</ctx-search-auto>z", "z"),
        ("", ""),
    ],
)
def test_what_is_not_the_persons_is_left_out(text: str, said: str):
    assert plain_words(text) == said


@pytest.mark.rule("HINT-3")
@pytest.mark.parametrize("text", ["a <ctx-search-hint>", "<CTX-Search-Auto x='1'>", "<sidekick-augmentation>"])
def test_what_was_looked_up_already_is_known(text: str):
    assert stacked(text)
    assert not stacked(text.replace("<", "("))


@pytest.mark.rule("HINT-3")
@pytest.mark.parametrize(
    ("said", "longest"), [("word " * 500, ATOMS * 5), ("x" * 50_000, TOKENS * 4), ("ü" * 5_000, TOKENS * 4)]
)
def test_a_query_has_a_size(said: str, longest: int):
    made = query(said)
    assert longest - 5 <= len(made.encode()) <= longest
    assert len(made.split()) <= ATOMS


@pytest.mark.rule("HINT-3")
@given(
    st.lists(
        st.one_of(
            st.text(max_size=8),
            st.sampled_from(
                ["<!--", "-->", "<", ">", "§1§", "\ud800", *(f"<{x}>" for x in DROPPED), *(f"</{x}>" for x in DROPPED)]
            ),
        ),
        max_size=40,
    ).map("".join)
)
def test_any_text_gives_a_query_without_blocks_of_ours(text: str):
    made = query(plain_words(text))
    made.encode()
    assert len(made.split()) <= ATOMS
    assert not any(f"<{name}>" in made for name in DROPPED)


@pytest.mark.rule("HINT-3")
@pytest.mark.parametrize(
    "piece",
    ["<instruction><x></system-reminder>", "<!--", "<a ", "<system-reminder>", "[Category+Skill Reminder]\n\n", "§1"],
)
def test_a_large_text_of_odd_pieces_is_read_in_one_go(piece: str):
    begun = time.process_time()
    plain_words(piece * (LOOKED // len(piece) + 1))
    assert time.process_time() - begun < 2, "not again and again from each piece"

"""Cleaning, escaping, tool lines and commit hashes (``history.md`` 2.2, 4.5, 5.3)."""

from __future__ import annotations

from html import unescape as html_unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldlog.domain.history import words


@given(st.text())
def test_escaping_is_read_back(text):
    """HIST-24, DECAY-4: by our reader and by an HTML parser alike."""
    assert words.unescape(words.escape(text)) == text
    assert words.unescape(words.escape_attribute(text)) == text
    assert not set(words.escape_attribute(text)) & set("<>\"'")
    assert html_unescape(words.escape("<a & b>")) == "<a & b>"


def test_entities_are_read_once():
    """HIST-24."""
    assert words.unescape("&amp;lt;p1&gt; &apos;&quot; &nbsp;") == "&lt;p1> '\" &nbsp;"


@given(st.text(alphabet=st.sampled_from("ab😀é"), max_size=40), st.integers(0, 50))
def test_clip_counts_utf16_units(text, units):
    """HIST-17: and never leaves half a pair."""
    found = words.clip(text, units)
    if len(text.encode("utf-16-le")) // 2 <= units:
        assert found == text
    else:
        kept = found.removesuffix("…")
        assert text.startswith(kept)
        assert units - 1 <= len(kept.encode("utf-16-le")) // 2 <= units


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (("please fix it",), True),
        (("", "  \n"), False),
        ((), False),
        (("<system-reminder>x</system-reminder> \n",), False),
        (("<system-reminder>x</system-reminder> go <system-reminder>y</system-reminder>",), True),
        (("<!-- OMO_INTERNAL_INITIATOR -->",), False),
        (("[SYSTEM DIRECTIVE: go on]",), False),
        (("[SYSTEM DIRECTIVE: go on]", "and mind the tests"), True),
        (("<system-reminder>never closed",), True),
    ],
)
def test_meaningful(texts, says):
    """HIST-18."""
    assert words.meaningful(texts) is says


def test_unclosed_reminders_stay():
    """HIST-16: and a text of many openings is not searched again for each."""
    text = "<system-reminder>" * 60_000
    assert words.clean_user(text) == text
    assert words.clean_user(f"a<system-reminder>b</system-reminder>c{text}") == f"ac{text}"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"description": " Run\n the tests ", "command": "pytest"}, "TC: Run the tests"),
        ({"filePath": "a.py", "path": "b"}, "TC: T(a.py)"),
        ({"path": "b", "file_path": "c"}, "TC: T(c)"),
        ({"pattern": "x" * 70}, f"TC: T({'x' * 70})"),
        ({"query": "x" * 61}, f"TC: T({'x' * 60}…)"),
        ({"query": "x" * 60}, f"TC: T({'x' * 60})"),
        ({"command": "y" * 61}, f"TC: T({'y' * 60}…)"),
        ({"filePath": " ", "symbol": "s", "module": "m"}, "TC: T(s)"),
        ({"action": "list", "command": "c"}, "TC: T(list)"),
        ({"description": 3, "path": ["x"], "other": "o"}, "TC: T"),
        ({}, "TC: T"),
    ],
)
def test_tool_lines(arguments, line):
    """HIST-17."""
    assert words.tool_line("T", arguments) == line


@pytest.mark.parametrize(
    ("text", "rest", "hashes"),
    [
        ("see ABCDEF1 there", "see ABCDEF1 there", ["abcdef1"]),
        ("Committed as abcdef1 (see 1234567)", "Committed as (see )", ["abcdef1", "1234567"]),
        ("committed `abcdef1` now", "committed now", ["abcdef1"]),
        ("abcdef abcdef1234567 xabcdef1", "abcdef abcdef1234567 xabcdef1", []),
        ("commitment abcdef1", "commitment abcdef1", ["abcdef1"]),
        ("cherry-picked abcdef1, rebasing ABCDEF1", "cherry-picked , rebasing", ["abcdef1"]),
    ],
)
def test_hashes(text, rest, hashes):
    """HIST-19."""
    found: list[str] = []
    assert words.take_hashes(text, found) == rest
    assert found == hashes


def test_five_hashes_and_no_more_are_taken_out():
    """HIST-19: what is not listed stays in the prose."""
    found: list[str] = []
    assert words.take_hashes("merged " + " ".join(f"aaaaaa{n}" for n in range(7)), found) == "merged aaaaaa5 aaaaaa6"
    assert found == [f"aaaaaa{n}" for n in range(5)]

"""The condensed text a summariser reads (``history.md`` 5.3)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldlog.domain.errors import OptionError
from foldlog.domain.history.chunk import CUT_MARK, Chunk, ToolUse, Turn, build, fit


def count(text: str) -> int:
    return len(text.split())


def turns(*said: tuple[str, Any], first: int = 1) -> list[Turn]:
    """``("U", text or texts)``, ``("A", …)``, ``("C", call ids)``, ``("R", result ids)``, ``("AC", (text, id))``."""
    found = []
    for position, (kind, value) in enumerate(said, first):
        texts = (value,) if isinstance(value, str) else tuple(value)
        calls = tuple(ToolUse("Read", {"file_path": f"{one}.py"}, one) for one in texts)
        match kind:
            case "U":
                found.append(Turn(position, "user", texts))
            case "A":
                found.append(Turn(position, "assistant", texts))
            case "C":
                found.append(Turn(position, "assistant", (), calls))
            case "R":
                found.append(Turn(position, "user", (), (), texts))
            case "T":
                found.append(Turn(position, "tool", ("output",), (), texts))
            case "AC":
                found.append(Turn(position, "assistant", texts[:1], calls[1:]))
    return found


def lines(chunk: Chunk) -> list[str]:
    return chunk.text.splitlines()


def test_blocks():
    """HIST-16, HIST-17."""
    chunk = build(
        turns(
            ("U", ["Fix  the\nlexer", " now "]),
            ("A", "I look."),
            ("C", "a"),
            ("R", "a"),
            ("AC", ("Then this.", "b")),
            ("R", "b"),
            ("U", "Thanks"),
            first=7,
        ),
        1_000,
        count,
    )
    assert lines(chunk) == [
        "[7] U: Fix the lexer / now",
        "[8-12] A: I look. / TC: Read(a.py) / Then this.",
        "[13] U: Thanks",
    ]
    assert (chunk.start, chunk.end, chunk.has_more, chunk.tokens) == (7, 13, False, count(chunk.text))
    assert chunk.arcs == ((9, 10), (11, 12))
    assert chunk.tool_only == ((9, 10), (12, 12))


def test_other_roles():
    """HIST-16."""
    said = [Turn(1, "system", ("Be brief",)), Turn(2, "assistant", ("ok",)), Turn(3, "other", ("x",))]
    chunk = build(said, 99, count)
    assert lines(chunk) == ["[1] S: Be brief", "[2] A: ok", "[3] O: x"]


def test_outputs_are_never_shown():
    """HIST-16."""
    chunk = build(turns(("U", "go"), ("C", "a"), ("T", "a"), ("A", "done")), 99, count)
    assert lines(chunk) == ["[1] U: go", "[2-4] A: TC: Read(a.py) / done"]


def test_user_rows_without_meaning():
    """HIST-16, HIST-18."""
    reminder = "<system-reminder>be careful</system-reminder>"
    noise = build(turns(("A", "a"), ("U", reminder), ("U", f"{reminder} b "), ("U", reminder)), 99, count)
    assert lines(noise) == ["[1] A: a", "[2-4] U: b"]
    shell = Turn(2, "user", (reminder,), (ToolUse("bash", {"command": "ls"}, "x"),), ("x",))
    assert lines(build([*turns(("A", "a")), shell, *turns(("U", "b"), first=3)], 99, count)) == [
        "[1-2] A: a / TC: bash(ls)",
        "[3] U: b",
    ]
    assert lines(build([Turn(1, "user", (reminder,), shell.calls)], 99, count)) == ["[1] A: TC: bash(ls)"]


def test_results_stay_with_their_calls():
    """HIST-18: a user's message begins its own line, for hosts that answer calls in rows of their own."""
    chunk = build(turns(("C", "a"), ("R", "a"), ("U", "next"), ("R", "zz"), ("A", "so")), 99, count)
    assert lines(chunk) == ["[1-2] A: TC: Read(a.py)", "[3] U: next", "[4-5] A: so"]


def test_noise_before_a_result_stays_with_the_call():
    """HIST-18."""
    chunk = build(turns(("C", "a"), ("U", ""), ("R", "a"), ("U", ""), ("U", "next")), 99, count)
    assert lines(chunk) == ["[1-3] A: TC: Read(a.py)", "[4-5] U: next"]


def test_only_noise():
    """HIST-21."""
    chunk = build(turns(("U", ""), ("R", "a"), ("A", " "), first=4), 99, count)
    assert (chunk.text, chunk.lines, chunk.start, chunk.end, chunk.has_more) == ("", (), 4, 6, False)
    assert chunk.tool_only == ((5, 5),)


def test_commits_and_clusters():
    """HIST-19."""
    chunk = build(
        turns(
            ("A", "Committed abcdef1."),
            ("A", "And merged ABCDEF2, abcdef1."),
            ("U", "abcdef3 is broken"),
            ("A", "abcdef3 again"),
            ("U", "?"),
            ("A", "fine"),
        ),
        99,
        count,
    )
    assert lines(chunk) == [
        "[1-2] A: commits: abcdef1, abcdef2 Committed . / And merged , .",
        "[3] U: abcdef3 is broken",
        "[4] A: commits: abcdef3 abcdef3 again",
        "[5] U: ?",
        "[6] A: fine",
    ]
    assert chunk.clusters == 2


def test_the_budget_ends_a_chunk_between_blocks():
    """HIST-20."""
    said = turns(("U", "one two three"), ("A", "four five six"), ("U", "seven"), ("U", ""), ("A", "eight"))
    first = build(said, 11, count)
    assert (first.end, first.has_more, len(first.lines)) == (2, True, 2)
    then = build(said[first.end :], 11, count)
    assert (then.start, then.end, then.has_more) == (3, 5, False)
    assert build(said, 1, count).end == 1  # an oversize first block is taken whole


def test_a_chunk_does_not_end_inside_an_arc():
    """HIST-20: it gives blocks back, or takes the whole group."""
    said = turns(("U", "go"), ("C", "a"), ("U", "wait " * 9), ("R", "a"), ("A", "word " * 9), ("U", "end"))
    assert build(said, 8, count).end == 1
    group = build(said[1:], 7, count)
    assert (group.end, group.has_more) == (5, True)
    assert build(said[1:5], 7, count).has_more is False
    assert build(said[1:4], 7, count).end == 4  # noise behind the last block goes with it


def test_fit_cuts_the_longest_beginning_that_fits():
    """HIST-20."""
    text = "word " * 100
    assert fit(text, 100, count) is text
    cut = fit(text, 50, count)
    assert cut.endswith(CUT_MARK)
    assert count(cut) == 50
    assert text.startswith(cut.removesuffix(CUT_MARK))
    assert fit(text, 0, count) == CUT_MARK


def test_positions_must_be_consecutive():
    """HIST-20."""
    with pytest.raises(OptionError):
        build([], 10, count)
    with pytest.raises(OptionError):
        build([Turn(1, "user", ("a",)), Turn(3, "user", ("b",))], 10, count)


@st.composite
def sessions(draw: st.DrawFn) -> list[Turn]:
    """Turns as any host may hand them over: calls answered late, together, out of order, or never; noise anywhere."""
    found: list[Turn] = []
    open_calls: list[str] = []
    words = st.sampled_from(["", " ", "some words here", "commit abcdef1 done", "<system-reminder>x</system-reminder>"])
    for position in range(1, draw(st.integers(1, 14)) + 1):
        role = draw(st.sampled_from(["user", "assistant", "assistant", "tool", "system"]))
        calls = tuple(
            ToolUse("Bash", {"command": "ls"}, f"c{position}.{n}") for n in range(draw(st.sampled_from([0, 0, 1, 2])))
        )
        results = tuple(one for one in open_calls if draw(st.booleans()))
        open_calls = [one for one in open_calls if one not in results] + [call.id for call in calls]
        texts = tuple(draw(st.lists(words, max_size=2)))
        found.append(Turn(position, role, texts, calls, results))
    return found


@pytest.mark.slow
@given(sessions(), st.integers(1, 40))
def test_chunk_after_chunk_every_position_is_in_one_line(said, budget):
    """HIST-18, HIST-20, HIST-21: invariants 4 and 5, until the range is used up; and the same again (invariant 6)."""
    at, read = 0, []
    while at < len(said):
        chunk = build(said[at:], budget, count)
        assert chunk == build(list(said[at:]), budget, count)
        assert chunk.start == said[at].position
        assert chunk.has_more == (chunk.end < len(said))
        called = {call.id for turn in said[: chunk.end] for call in turn.calls}
        assert not [one for turn in said[chunk.end :] for one in turn.results if one in called]
        if chunk.lines:
            assert [line.first for line in chunk.lines] == [chunk.start, *(line.last + 1 for line in chunk.lines[:-1])]
            assert chunk.lines[-1].last == chunk.end
            assert all(before.role != after.role for before, after in zip(chunk.lines, chunk.lines[1:], strict=False))
        else:
            assert not chunk.has_more
            assert chunk.text == ""
        assert len(chunk.lines) == len(chunk.text.splitlines())
        for first, last in chunk.tool_only:
            assert chunk.start <= first <= last <= chunk.end
        read += range(chunk.start, chunk.end + 1)
        at = chunk.end
    assert read == [turn.position for turn in said]

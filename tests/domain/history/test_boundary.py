"""Where the raw tail begins, and what one run reads (``history.md`` 5.1, 4.5)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldlog.domain.errors import OptionError
from foldlog.domain.history.boundary import Boundary, Row, find_arcs, resolve
from foldlog.domain.history.budgets import Figures, figures

BASE = figures(200_000, 6_500, 0)


def sizes(tail: int, cap: int = 10**6, *, forced: bool = True) -> Figures:
    return msgspec.structs.replace(BASE, tail=tail, scaled=tail, cap=cap, forced=forced)


def plain(*tokens: int) -> list[Row]:
    return [Row(number) for number in tokens]


def prompt(tokens: int) -> Row:
    return Row(tokens, user_prompt=True)


def call(tokens: int, *ids: str) -> Row:
    return Row(tokens, tools=True, calls=ids)


def result(tokens: int, *ids: str) -> Row:
    return Row(tokens, tools=True, results=ids)


def ranges(found: Boundary) -> tuple[int, int, int]:
    return found.offset, found.tail_start, found.eligible_end


# --------------------------------------------------------------------- size walk


@pytest.mark.parametrize(
    ("tail", "start", "reason"),
    [
        (1, 6, "size-walk"),
        (1_000, 6, "size-walk"),
        (1_001, 5, "size-walk"),
        (2_000, 5, "size-walk"),
        (6_000, 1, "size-walk"),
        (6_001, 1, "whole-session-smaller-than-tail"),
    ],
)
def test_the_tail_holds_n_tokens(tail, start, reason):
    """HIST-3."""
    found = resolve(plain(*[1_000] * 6), 1, sizes(tail))
    assert (found.tail_start, found.reason) == (start, reason)
    assert found.head_tokens == (start - 1) * 1_000


def test_rows_before_the_offset_do_not_count():
    """HIST-3: nor does where the rows handed over begin."""
    rows = plain(*[1_000] * 9)
    found = resolve(rows, 4, sizes(2_000))
    assert ranges(found) == (4, 8, 8)
    assert resolve(rows[2:], 4, sizes(2_000), first=3) == resolve(rows[3:], 4, sizes(2_000), first=4) == found
    with pytest.raises(OptionError):
        resolve(rows, 2, sizes(2_000), first=3)


def test_nothing_left():
    """HIST-3."""
    assert resolve([], 1, sizes(5)).reason == "empty-session"
    found = resolve(plain(9, 9), 3, sizes(5))
    assert ranges(found) == (3, 3, 3)
    assert not found.runnable


def test_a_huge_message_is_left_out_of_the_tail():
    """HIST-3."""
    found = resolve(plain(500, 500, 64_001, 10), 1, sizes(2_000))
    assert (found.tail_start, found.reason) == (4, "huge-message-exception")
    assert resolve(plain(500, 500, 64_000, 10), 1, sizes(2_000)).tail_start == 3
    assert resolve(plain(500, 500, 64_001), 1, sizes(2_000)).tail_start == 3
    assert resolve(plain(500, 500, 70_000, 10), 1, sizes(36_000)).tail_start == 3


# -------------------------------------------------------------------------- arcs


def test_spans_of_arcs():
    """HIST-4, HIST-5."""
    rows = [(("a",), ()), (("b",), ("a",)), ((), ("b",)), ((), ()), (("c", "d"), ("c",)), ((), ("x",)), ((), ("d",))]
    found = find_arcs(rows, 10)
    assert found.spans == ((9, 16),)  # x was called before
    found = find_arcs([*rows[:5], ((), ()), (("a",), ())], 10)
    assert found.spans == ((10, 12),)  # a-b share a row; c within one row is no span
    assert found.open == (14, 16)  # d, and a used again


def test_a_boundary_moves_back_to_the_call():
    """HIST-4."""
    rows = [*plain(1_000, 1_000), call(10, "a"), *plain(10), result(5_000, "a"), *plain(10)]
    assert resolve(rows, 1, sizes(3_000)).tail_start == 3


def test_overlapping_arcs_are_one():
    """HIST-4: parallel calls, and calls answered after later ones were made."""
    calls = [call(10, "a"), call(10, "b"), result(10, "a"), call(10, "c"), result(10, "b"), result(900, "c")]
    rows = [*plain(1_000), *calls]
    assert resolve(rows, 1, sizes(500)).tail_start == 2


def test_an_arc_from_before_the_offset_moves_it_forward():
    """HIST-4."""
    rows = [call(1_000, "a"), *plain(1_000, 600), result(600, "a"), *plain(500, 500)]
    found = resolve(rows, 2, sizes(1_700))
    assert found.tail_start == 5
    assert resolve(rows, 2, sizes(1_700, cap=700)).eligible_end == 5


def test_an_open_call_near_the_end_sets_the_boundary():
    """HIST-5."""
    rows = [*plain(1_000, 1_000, 1_000, 1_000), call(10, "a"), *plain(100)]
    assert resolve(rows, 1, sizes(2_500)).tail_start == 5
    huge = [*plain(1_000, 1_000), call(70_000, "a"), *plain(100)]
    assert resolve(huge, 1, sizes(2_500)).tail_start == 3  # it stands where the size walk began
    rows[2] = call(1_000, "old")  # at the size walk's start or after it: the first one counts
    assert resolve(rows, 1, sizes(2_200)).tail_start == 3


def test_an_old_open_call_is_ignored():
    """HIST-5."""
    rows = [call(1_000, "dead"), *plain(1_000, 1_000, 1_000)]
    assert resolve(rows, 1, sizes(1_000)).tail_start == 4


def test_an_open_call_inside_a_completed_arc():
    """HIST-5: fenced once more."""
    rows = [*plain(1_000, 1_000), call(10, "a"), call(10, "b"), result(10, "a"), *plain(50)]
    assert resolve(rows, 1, sizes(75)).tail_start == 3


# -------------------------------------------------------------------------- snap


def test_the_snap_takes_the_newest_prompt_or_tool_row():
    """HIST-6."""
    rows = [*plain(1_000), prompt(100), *plain(200, 200, 1_000)]
    found = resolve(rows, 1, sizes(900))
    assert (found.tail_start, found.reason) == (2, "semantic-snap")
    rows[2] = call(200, "a")
    rows[3] = result(200, "a")
    assert resolve(rows, 1, sizes(900)).tail_start == 3


def test_a_snap_must_not_add_too_much():
    """HIST-6: 1.5 N, and 48,000."""
    rows = [*plain(1_000), prompt(500), *plain(1_000, 1_000)]
    assert resolve(rows, 1, sizes(1_000)).tail_start == 2
    rows[1] = prompt(501)
    assert resolve(rows, 1, sizes(1_000)).tail_start == 4
    rows = [*plain(1_000), prompt(8_001), *plain(40_000, 60_000)]
    assert resolve(rows, 1, sizes(60_000)).tail_start == 4
    rows[1] = prompt(8_000)
    assert resolve(rows, 1, sizes(60_000)).tail_start == 2


def test_no_snap_onto_a_huge_prompt():
    """HIST-6: it is no ground to keep a message that is huge itself."""
    rows = [*plain(1_000), prompt(64_001), *plain(10)]
    found = resolve(rows, 1, sizes(30_000))
    assert (found.tail_start, found.reason) == (3, "huge-message-exception")


# ------------------------------------------------------------------ newest prompt


def test_a_routine_resolution_keeps_the_newest_prompt():
    """HIST-7."""
    rows = [*plain(1_000, 1_000), prompt(10), *plain(5_000, 5_000, 5_000)]
    routine, forced = (resolve(rows, 1, sizes(1_000, forced=forced)) for forced in (False, True))
    assert (routine.tail_start, forced.tail_start) == (3, 6)
    assert resolve(rows, 1, sizes(1_000, forced=False), floor_mark=True).tail_start == 6
    assert not routine.blocked


def test_what_only_the_newest_prompt_blocks():
    """HIST-7, HIST-15."""
    rows = [prompt(10), *plain(5_000, 5_000, 5_000)]
    found = resolve(rows, 1, sizes(1_000, forced=False))
    assert (found.runnable, found.blocked) == (False, True)
    assert resolve(rows, 1, sizes(1_000, forced=False), floor_mark=True).runnable
    assert not resolve(rows[:2], 1, sizes(10_000, forced=False)).blocked
    assert not resolve(rows, 2, sizes(1_000, forced=False)).blocked  # it is covered: no fence any more


def test_a_prompt_inside_an_arc():
    """HIST-7: back to the call; where that lies before the offset, nothing is eligible."""
    rows = [*plain(1_000, 1_000), call(10, "a"), prompt(10), result(10, "a"), *plain(5_000)]
    assert resolve(rows, 1, sizes(1_000, forced=False)).tail_start == 3
    assert resolve(rows, 4, sizes(1_000, forced=False)).tail_start == 4


# ------------------------------------------------------------------ head and cap


def test_crumbs_are_no_head():
    """HIST-8."""
    assert resolve(plain(256, 5_000), 1, sizes(5_000)).tail_start == 1
    assert resolve(plain(257, 5_000), 1, sizes(5_000)).tail_start == 2


def test_a_run_reads_at_most_its_cap():
    """HIST-9."""
    rows = plain(*[1_000] * 8)
    assert ranges(resolve(rows, 1, sizes(1_000, cap=3_999))) == (1, 8, 4)
    assert ranges(resolve(rows, 1, sizes(1_000, cap=4_000))) == (1, 8, 5)
    found = resolve(rows, 1, sizes(1_000, cap=10))
    assert (ranges(found), found.oversize, found.eligible_tokens) == ((1, 8, 2), True, 1_000)


def test_a_run_never_reads_half_an_arc():
    """HIST-9."""
    rows = [*plain(1_000), call(10, "a"), result(5_000, "a"), *plain(1_000, 1_000)]
    assert resolve(rows, 1, sizes(1_000, cap=3_000)).eligible_end == 2
    found = resolve(rows, 2, sizes(1_000, cap=3_000))
    assert (ranges(found), found.oversize) == ((2, 5, 4), True)


# -------------------------------------------------------------------- invariants


@st.composite
def sessions(draw: st.DrawFn) -> list[Row]:
    """Rows with calls answered at once, later, in other order, twice, or never, and prompts anywhere."""
    rows: list[Row] = []
    open_calls: list[str] = []
    made = 0
    for _ in range(draw(st.integers(0, 14))):
        answered = [one for one in open_calls if draw(st.integers(0, 2)) == 0]
        open_calls = [one for one in open_calls if one not in answered or draw(st.integers(0, 9)) == 0]
        calls = tuple(f"c{made + n}" for n in range(draw(st.sampled_from([0, 0, 1, 1, 2]))))
        made += len(calls)
        open_calls += calls
        tokens = draw(st.sampled_from([0, 1, 100, 300, 1_000, 5_000, 70_000]))
        rows.append(Row(tokens, draw(st.integers(0, 4)) == 0, bool(calls or answered), calls, tuple(answered)))
    return rows


def splits(rows: list[Row], b: int) -> list[str]:
    """The call ids with an answer on the other side of a boundary before position ``b``."""
    before, behind = rows[: b - 1], rows[b - 1 :]
    called = {one for row in before for one in row.calls}
    return [one for row in behind for one in row.results if one in called]


@pytest.mark.slow
@given(
    sessions(),
    st.sampled_from([1, 200, 1_500, 9_000]),
    st.sampled_from([1, 900, 6_000, 10**6]),
    st.booleans(),
    st.booleans(),
)
def test_run_after_run_every_position_is_covered_once(rows, tail, cap, forced, mark):
    """HIST-4, HIST-9, HIST-10: invariants 4 and 5, over all the runs a session would get."""
    offset, covered = 1, []
    for _ in range(len(rows) + 1):
        with_sizes = sizes(tail, cap, forced=forced)
        found = resolve(rows, offset, with_sizes, floor_mark=mark)
        assert found == resolve(rows[offset - 1 :], offset, with_sizes, first=offset, floor_mark=mark)
        assert offset == found.offset <= found.eligible_end <= found.tail_start <= len(rows) + 1
        assert splits(rows, found.tail_start) == []
        assert splits(rows, found.eligible_end) == []
        assert found.head_tokens == sum(row.tokens for row in rows[offset - 1 : found.tail_start - 1])
        assert found.eligible_tokens == sum(row.tokens for row in rows[offset - 1 : found.eligible_end - 1])
        if not (forced or mark):
            prompts = [number for number, row in enumerate(rows, 1) if row.user_prompt and number >= offset]
            assert found.tail_start <= max(prompts, default=len(rows) + 1)
        if found.tail_start > offset:
            assert found.runnable, "a head that no run can read would starve the historian"
            assert found.head_tokens > 256
        if not found.runnable:
            break
        covered += range(offset, found.eligible_end)
        offset = found.eligible_end
    tail_positions = list(range(offset, len(rows) + 1))
    assert covered + tail_positions == list(range(1, len(rows) + 1))


@pytest.mark.slow
@given(sessions(), st.integers(1, 15), st.sampled_from([1, 1_500]), st.sampled_from([1, 900, 6_000]), st.booleans())
def test_from_any_offset(rows, offset, tail, cap, forced):
    """HIST-4, HIST-10: also where an offset already stands inside an arc, nothing else is split."""
    found = resolve(rows, offset, sizes(tail, cap, forced=forced))
    assert offset == found.offset <= found.eligible_end <= found.tail_start <= max(offset, len(rows) + 1)
    for b in (found.eligible_end, found.tail_start):
        assert b == offset or splits(rows, b) == []
    assert not (found.runnable and found.blocked)

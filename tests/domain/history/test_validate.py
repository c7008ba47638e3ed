"""A draft held against its chunk (``history.md`` 5.7, 5.9)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from foldlog.domain.history.chunk import Chunk
from foldlog.domain.history.parse import Draft, DraftCompartment, DraftEvent, Fact, Primer
from foldlog.domain.history.validate import check, contiguous, discardable, finish

Ranges = tuple[tuple[int, int], ...]


def chunk(start: int = 1, end: int = 20, *, tools: Ranges = (), arcs: Ranges = ()) -> Chunk:
    return Chunk("", start, end, (), 0, False, 0, tools, arcs)


def draft(*ranges: tuple[int, int], unprocessed: int | None = None, **more: Any) -> Draft:
    found = tuple(
        DraftCompartment(n, first, last, f"t{n}", "", 50, f"text {n}", f"p2 {n}", "p3", "", "")
        for n, (first, last) in enumerate(ranges, 1)
    )
    return Draft(compartments=found, unprocessed=unprocessed, **more)


def ranges(compartments: tuple[DraftCompartment, ...]) -> list[tuple[int, int]]:
    return [(one.start, one.end) for one in compartments]


@pytest.mark.parametrize(
    ("given", "unprocessed", "next"),
    [
        ([(1, 20)], None, 21),
        ([(1, 20)], 21, 21),
        ([(1, 5), (6, 20)], None, 21),
        ([(1, 5), (6, 12)], 13, 13),
        ([(1, 1)], 2, 2),
    ],
)
def test_what_is_valid(given, unprocessed, next):
    """HIST-26."""
    verdict = check(draft(*given, unprocessed=unprocessed), chunk())
    assert (verdict.error, ranges(verdict.compartments), verdict.unprocessed) == ("", given, next)


@pytest.mark.parametrize(
    ("given", "unprocessed", "said"),
    [
        ([], None, "no compartment"),
        ([(2, 20)], None, "gap: compartment 2-20 must start at 1"),
        ([(1, 5), (7, 20)], None, "gap: compartment 7-20 must start at 6"),
        ([(1, 5), (5, 20)], None, "overlap: compartment 5-20 must start at 6"),
        ([(1, 5), (9, 6)], None, "compartment 9-6 ends before it starts"),
        ([(1, 21)], None, "compartment 1-21 reaches outside the messages 1-20"),
        ([(0, 20)], None, "compartment 0-20 reaches outside"),
        ([(1, 18)], None, "messages 19-20 are in no compartment"),
        ([(1, 18)], 21, "messages 19-20 are in no compartment"),
        ([(1, 18)], 18, "unprocessed_from 18 must be 19"),
        ([(1, 18)], 20, "unprocessed_from 20 must be 19"),
        ([(1, 18)], 22, "unprocessed_from 22 lies outside the messages 1-20"),
        ([(1, 18)], 0, "unprocessed_from 0 lies outside"),
    ],
)
def test_what_is_not(given, unprocessed, said):
    """HIST-26: the text names the place and what is expected."""
    verdict = check(draft(*given, unprocessed=unprocessed), chunk())
    assert said in verdict.error
    assert verdict.compartments == ()


def test_a_first_tier_must_say_something():
    """HIST-26."""
    blank = DraftCompartment(1, 1, 20, "t", "", 50, " \n", "x", "x", "", "flat")
    assert "compartment 1-20 has no text in p1" in check(Draft(compartments=(blank,)), chunk()).error


@pytest.mark.parametrize(("written", "kept"), [(-3, 1), (0, 1), (1, 1), (50, 50), (100, 100), (999, 100)])
def test_importance_is_held_to_its_range(written, kept):
    """HIST-26."""
    one = DraftCompartment(1, 1, 20, "t", "", written, "x", "x", "x", "", "x")
    assert check(Draft(compartments=(one,)), chunk()).compartments[0].importance == kept


def test_a_gap_of_tools_alone_is_healed():
    """HIST-25: and no other, nor one before the first compartment."""
    verdict = check(draft((1, 5), (9, 20)), chunk(tools=((4, 9),)))
    assert ranges(verdict.compartments) == [(1, 8), (9, 20)]
    assert "gap" in check(draft((1, 5), (9, 20)), chunk(tools=((6, 7),))).error
    assert "gap" in check(draft((1, 5), (9, 20)), chunk(tools=((6, 6), (8, 8)))).error
    assert "gap" in check(draft((3, 20)), chunk(tools=((1, 9),))).error
    assert "overlap" in check(draft((1, 8), (6, 20)), chunk(tools=((1, 20),))).error


def test_the_end_moves_behind_an_arc():
    """HIST-25: and with it what is left over."""
    verdict = check(draft((1, 10), unprocessed=11), chunk(arcs=((8, 13), (14, 15))))
    assert (ranges(verdict.compartments), verdict.unprocessed) == ([(1, 13)], 14)
    assert check(draft((1, 13), unprocessed=14), chunk(arcs=((8, 13),))).unprocessed == 14
    verdict = check(draft((1, 10)), chunk(arcs=((8, 20),)))  # it did not say that something is left, and nothing is
    assert (ranges(verdict.compartments), verdict.unprocessed) == ([(1, 20)], 21)


def test_inner_ends_move_too():
    """HIST-25."""
    verdict = check(draft((1, 10), (11, 20)), chunk(arcs=((10, 12),)))
    assert ranges(verdict.compartments) == [(1, 12), (13, 20)]
    for end in (12, 14):
        inside = check(draft((1, 10), (11, end), (end + 1, 20)), chunk(arcs=((9, 14),)))
        assert "compartment 1-10 ends between a tool call and its result" in inside.error
    assert "gap" in check(draft((1, 10), (12, 20)), chunk(arcs=((10, 12),))).error


@pytest.mark.parametrize(
    ("given", "arcs", "expected"),
    [
        ([(1, 10), (11, 20)], (), True),
        ([(1, 10), (11, 18)], (), True),
        ([(1, 10), (11, 17)], (), False),
        ([(1, 20)], (), False),
        ([(1, 10), (11, 20)], ((10, 11),), False),
        ([(1, 10), (11, 20)], ((9, 10), (11, 12)), True),
    ],
)
def test_discard_last(given, arcs, expected):
    """HIST-27."""
    assert discardable(draft(*given).compartments, chunk(arcs=arcs)) is expected


def test_what_goes_with_the_last_compartment():
    """HIST-27."""
    facts, seen = (Fact("NAMING", "x"),), ("likes tea",)
    events = tuple(DraftEvent("incident", at, ()) for at in (1, 2, 3, 9))
    written = draft((11, 20), (1, 10), facts=facts, observations=seen, events=events, primers=(Primer(2, "How?"),))
    written = structs.replace(written, compartments=written.compartments[::-1])
    verdict = check(written, chunk())
    assert verdict.error == ""
    result = finish(written, verdict, chunk())
    assert (ranges(result.compartments), result.discarded) == ([(1, 10)], True)
    assert (result.facts, result.observations, result.primers) == ((), (), ())
    assert [event.at for event in result.events] == [1]  # it was written second, and is the first now
    kept = finish(written, verdict, chunk(), keep_last=True)
    assert (ranges(kept.compartments), kept.discarded) == ([(1, 10), (11, 20)], False)
    assert (kept.facts, kept.observations, kept.primers) == ((), (), ())
    assert [event.at for event in kept.events] == [2, 1]
    longer = chunk(end=30)
    written = draft((1, 10), (11, 20), unprocessed=21, facts=facts, observations=seen, primers=(Primer(2, "How?"),))
    whole = finish(written, check(written, longer), longer)
    assert (whole.discarded, whole.facts, whole.observations) == (False, facts, seen)
    assert whole.primers == (Primer(2, "How?"),)


def test_stored_compartments_run_on():
    """HIST-26: the same rule, over what is stored already."""
    assert contiguous([]) == contiguous([(1, 4), (5, 5), (6, 9)]) == contiguous([(7, 9)], start=7) == ""
    assert contiguous([(1, 4), (6, 9)]) == "gap at 6-9: expected it to start at 5"
    assert contiguous([(1, 4), (4, 9)]) == "overlap at 4-9: expected it to start at 5"
    assert contiguous([(1, 4), (5, 3)]) == "5-3 ends before it starts"


@st.composite
def cases(draw: st.DrawFn) -> tuple[Draft, Chunk]:
    """Drafts near the truth: cuts of the chunk, some ends moved by one, with arcs and tool stretches at random."""
    start = draw(st.integers(1, 5))
    end = start + draw(st.integers(0, 14))
    cuts = sorted(draw(st.sets(st.integers(start, end), max_size=4)) | {end})
    given, at = [], start
    for cut in cuts:
        given.append((at + draw(st.sampled_from([0, 0, 0, 1, -1])), cut + draw(st.sampled_from([0, 0, 0, 0, 1, -1]))))
        at = cut + 1
    arcs, at = [], start - 1
    while at < end and draw(st.booleans()):
        first = draw(st.integers(at, end - 1))
        last = draw(st.integers(first + 1, end))
        arcs.append((first, last))
        at = last + 1
    tools = tuple((n, n + 1) for n in range(start, end, 3) if draw(st.booleans()))
    given = given[: draw(st.integers(0, len(given)))] if draw(st.integers(0, 3)) == 0 else given
    left = draw(st.sampled_from([None, end + 1, given[-1][1] + 1 if given else 0]))
    return draft(*given, unprocessed=left), chunk(start, end, tools=tools, arcs=tuple(arcs))


@given(cases(), st.booleans())
def test_what_passes_covers_each_position_once(case, keep_last):
    """HIST-25, HIST-26, HIST-27: invariants 4 and 5 for whatever a summariser may have written."""
    written, read = case
    verdict = check(written, read)
    assert bool(verdict.error) == (not verdict.compartments)
    assert check(written, read) == verdict
    if verdict.error:
        return
    assert contiguous(ranges(verdict.compartments), read.start) == ""
    assert verdict.unprocessed == verdict.compartments[-1].end + 1 <= read.end + 1
    result = finish(written, verdict, read, keep_last=keep_last)
    assert result.compartments
    for one in result.compartments:
        assert not [span for span in read.arcs if span[0] <= one.end < span[1]]
    # checked again as it stands, it is as it was: healing is done once
    again = Draft(compartments=verdict.compartments, unprocessed=verdict.unprocessed)
    assert check(again, read).compartments == verdict.compartments

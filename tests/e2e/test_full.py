"""Pictures on each host, a window that gets full at one stroke, and a session in which nothing can go."""

from __future__ import annotations

import re

import pytest
from e2e import measure, scripts
from e2e.provider import pictures, record

from foldlog import Engine

SHOTS = {pictures.digest(scripts.picture(number)): number for number in range(scripts.SHOTS)}
AIM = 0.7
"""Of the full request the one behind the emergency has at most so much."""


@pytest.fixture(scope="session")
def asked(full):
    return measure.main(full.records, measure.rows(full.db, full.host.session_of(full.ran[0])))


def answered(asked, step):
    return next(each.record for each in asked if each.record.step == step)


def shown(each):
    """The numbers of the pictures a request held; a picture that is none of ours stays a digest."""
    return [SHOTS.get(digest, digest) for digest in each.pictures]


def test_pictures_of_a_person_and_of_tools_arrive_byte_for_byte(asked):
    assert [shown(answered(asked, step)) for step in range(4)] == [[0], [0, 1], [0, 1, 2], [0, 1, 2]]


def test_pictures_the_provider_refuses_are_shed_and_the_work_goes_on(full, asked):
    """The proxy asks again before the host sees anything, Pi and OMP are asked for one more request; on OpenCode the
    turn ends with the provider's words, and the next one fits.
    """
    (refused,) = [each for each in full.records if each.failure == "pictures"]
    assert shown(refused) == [0, 1, 2, 3]
    again = next(each for each in asked if each.record.n > refused.n)
    assert shown(again.record) == ([3, 4] if full.host.NAME == "opencode" else [3]), "the newest message's stay"
    assert "picture_recovery" in again.row.reasons
    said = str(record.body_of(full.room.provider, again.record))
    assert re.search(r"\[dropped §\d+§\]", said), "a picture of a person keeps its number in its place"
    first = full.ran[0]
    if full.host.NAME != "opencode":
        assert (first.code, full.host.said(first)) == (0, "The pictures are seen."), first.err
    else:
        assert first.code != 0
        assert "Too many images" in first.out
    assert [row.outcome for row in measure.rows(full.db, full.host.session_of(first)) if row.outcome] == ["bulky"]


def test_the_second_turn_goes_on_to_its_end(full):
    second = full.ran[1]
    assert (second.code, full.host.said(second)) == (0, "The list is done."), second.err
    assert [each.message for each in full.records if each.failure == "invalid" or each.kind == "bad"] == []
    assert [each.n for each in full.records if each.track == "main" and each.failure == "overflow"] == []


def test_at_95_per_cent_one_emergency_makes_room(full, asked):
    """Nobody summarises here: what the emergency drops is all there is."""
    poured = next(each for each in asked if each.record.step == scripts.POURED)
    assert poured.record.total >= full.room.window * 95 // 100, "the window was not filled"
    behind = next(each for each in asked if each.record.before == poured.record.n)
    assert behind.record.total < poured.record.total * AIM
    assert "force" in behind.row.reasons
    landed = [lane.lane for each in asked for lane in each.row.lanes if lane.landed and lane.lane == "emergency"]
    assert landed == ["emergency"], "one batch, once"
    assert behind.row.prompt == behind.record.total


def test_a_picture_the_model_has_seen_leaves_behind_what_is_newer(full, asked):
    """IMAGE-1: pasted with the second prompt and seen; the emergency drops newer things, and with the next rebuild, by
    which nobody means it, it leaves.
    """
    assert [shown(answered(asked, step)) for step in (scripts.POURED, scripts.FLUSHED)] == [[3, 4], [4]]
    last = asked[-1]
    assert (shown(last.record), "flush" in last.row.reasons) == ([], True)
    assert [lane.lane for each in asked for lane in each.row.lanes if lane.landed].count("images") == 1
    assert any(lane.lane == "images" and lane.landed for lane in last.row.lanes)


def test_deferred_passes_replay_pictures_and_all_that_left(full, asked):
    wrong = [each for each in asked if each.changed and each.row.level == "defer" and not each.row.divergence]
    assert wrong == []
    assert [(each.record.n, each.row) for each in asked if each.cause == "unexplained"] == []
    told = [(each.row.prompt, each.record.total) for each in asked if each.row.prompt >= 0]
    assert [pair for pair in told if pair[0] != pair[1]] == []
    assert len(told) >= 9


def test_a_session_in_which_nothing_can_go_says_so(full):
    """The provider proved that it does not fit: the person reads why and what to do, and the host lives on."""
    third, fourth = full.ran[2:]
    assert {third.code, fourth.code} <= {0, 1}, (third.err, fourth.err)
    rows = measure.rows(full.db, full.host.session_of(third))
    refused = [row for row in rows if row.level == "refused"]
    assert refused, rows
    for words in ("does not fit the model's window", "use a model with a larger window"):
        assert words in fourth.out + fourth.err, (fourth.out[-2000:], fourth.err[-2000:])
    sent = [each for each in full.records if (each.track, each.step, each.kind) == ("none", 1, "step")]
    assert [each.failure for each in sent] == ["overflow"], "what cannot fit was sent again"


def test_the_stored_sessions_prove_themselves(full):
    with Engine.open(f"sqlite:///{full.db}", summarizer=None) as engine:
        found = {stream: engine.audit(stream).differences for stream, _ in engine.sessions()}
    assert len(found) == 2
    assert not any(found.values()), found

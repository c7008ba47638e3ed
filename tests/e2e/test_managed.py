"""The long session of each host with foldlog: longer than the window, through a crash of foldlog and of the host."""

from __future__ import annotations

import re

import pytest
from e2e import measure, scripts
from e2e.hosts.base import KEY
from e2e.provider import record

from foldlog import Engine


@pytest.fixture(scope="session")
def asked(managed):
    return measure.main(managed.records, measure.rows(managed.db))


def bodies(managed):
    """The text of every request of the main track, decoded, so that signs read as people see them."""
    for each in managed.records:
        if each.kind == "step":
            yield each, str(record.body_of(managed.room.provider, each))


def test_the_session_goes_on_to_its_end(managed):
    first, killed, last = managed.ran
    assert (first.code, managed.host.said(first)) == (0, f"The first half is done, {scripts.STOP} steps."), first.err
    assert killed.code != 0
    assert (last.code, managed.host.said(last)) == (0, "The list is done."), last.err


def test_every_request_is_valid_and_fits(managed):
    records = managed.records
    assert [each.message for each in records if each.failure in {"invalid", "overflow"} or each.kind == "bad"] == []
    assert [each.n for each in records if each.kind == "summary"] == [], "the host compacted by itself"
    assert sum(each.kind == "step" and each.status == 200 for each in records) >= 30


def test_the_host_begins_no_compaction_of_its_own(managed):
    """Pi and OMP say so when they do; one that is cancelled is one a person reads of, with each request."""
    begun = [line for ran in managed.ran for line in ran.lines() if str(line.get("type")).endswith("compaction_start")]
    assert begun == []


def test_it_folds_twice_and_says_why(managed, asked):
    figures = measure.measured(asked, managed.records)
    why = [(each.row.level, *each.row.reasons) for each in asked if each.row and each.row.level in measure.FOLDS]
    assert figures.folds >= 2, why
    assert ("hard", "first_render") in why
    assert any(level == "hard" and "ttl_idle" in reasons for level, *reasons in why), why
    assert any(level == "soft" for level, *_ in why), why


def test_a_deferred_pass_changes_no_byte_before_it(asked):
    """On the provider's side the request before is a prefix of the next."""
    wrong = [
        (each.record.n, each.record.step, each.record.shared, measure.size(each.before), each.row)
        for each in asked
        if each.changed and each.row.level == "defer" and not each.row.divergence
    ]
    assert wrong == []


def test_drops_land_on_a_rebuild_only(asked):
    assert [each.row for each in asked if each.row.level == "defer" and each.row.landed] == []


def test_the_to_do_list_outlives_its_call(managed, asked):
    """A host with a tool for a whole list has it once a summary covers the call that wrote it (TODO-1, TODO-6)."""
    held = [str(record.body_of(managed.room.provider, each.record)) for each in asked]
    listed, ours = [scripts.GOAL in body for body in held], ["foldlog_todo_" in body for body in held]
    if managed.host.NAME != "opencode":  # the others' models are offered no such tool here
        assert not any((*listed, *ours))
        return
    first = listed.index(True)
    assert first == 2
    assert all(listed[first:]), "a request without the list"
    assert not ours[first]
    assert ours[-1], "the call itself has not left"


def test_a_new_summary_leaves_the_head_before_it_alone(asked):
    """What was published goes into m[1]; tools, system and m[0] stay what they were until the next fold."""
    soft = [each for each in asked if each.row.level == "soft" and not each.row.divergence]
    assert soft
    for each in soft:
        before = [(block[1], block[2]) for block in each.before.blocks]
        now = [(block[1], block[2]) for block in each.record.blocks]
        first = next(at for at, block in enumerate(each.record.blocks) if block[0].startswith(("messages.0", "input.")))
        while now[first][0] != "user":  # items of the system stand before the head on one wire
            first += 1
        assert now[: first + 1] == before[: first + 1]


def test_every_lost_cache_read_has_its_cause_in_the_log(asked):
    assert [(each.record.n, each.record.step, each.row) for each in asked if each.cause == "unexplained"] == []


def test_between_folds_the_cache_is_read_as_without_foldlog(managed, asked, alone):
    mine = measure.measured(asked, managed.records)
    host = measure.measured(measure.main(alone.records), alone.records)
    assert mine.between >= host.between - 0.01, (mine, host)


def test_the_log_knows_what_the_provider_counted(asked):
    told = [(each.row.prompt, each.record.total) for each in asked if each.row and each.row.prompt >= 0]
    assert len(told) >= 30
    assert asked[-1].row.prompt == asked[-1].record.total, "the last step's usage is not known"
    assert [pair for pair in told if pair[0] != pair[1]] == []


def test_drops_and_summaries_are_seen_by_the_model(managed, asked):
    texts = [text for _, text in bodies(managed)]
    assert any(re.search(r"§\d+§ ", text) for text in texts), "no numbers"
    assert any("<session-history>" in text and "part00" in text for text in texts), "no summary"
    reduced = [each for each in managed.records if any("ctx_reduce" in call for call in each.calls)]
    assert reduced, "the model was offered no ctx_reduce"
    landed = [each for each in asked if each.row and each.row.landed]
    assert landed, "what the model dropped never left"
    assert all(each.record.total < measure.size(each.before) for each in landed)


def test_an_original_comes_back(managed):
    expanded = [each for each in managed.records if any("ctx_expand" in call for call in each.calls)]
    assert expanded, "the model was offered no ctx_expand"
    after = [text for each, text in bodies(managed) if each.n > expanded[0].n]
    assert any(scripts.first_line(number)[:40] in after[0] for number in range(scripts.FILES)), after[0][-3000:]


def test_the_stored_session_proves_itself(managed):
    with Engine.open(f"sqlite:///{managed.db}", summarizer=None) as engine:
        for stream, _ in engine.sessions():
            found = engine.audit(stream)
            assert found.differences == (), (stream, found.differences[:3])


def test_the_key_is_nowhere(managed):
    kept = [*managed.room.home.glob("foldlog.db*"), *managed.room.root.glob("foldlog.log")]
    assert [str(file) for file in kept if KEY.encode() in file.read_bytes()] == []

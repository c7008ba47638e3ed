"""What goes wrong between a host and its provider, with foldlog between them: the work goes on."""

from __future__ import annotations

import re

import pytest
from e2e import measure, scripts
from e2e.hosts import claude
from e2e.provider import record
from e2e.provider.scenario import Failure
from e2e.stage import stage

from foldlog import Engine
from foldlog.domain import events as ev

TROUBLE = (
    Failure(1, "529", times=2),
    Failure(2, "429"),
    Failure(3, "cut"),
    Failure(6, "slow", seconds=1.5),
    Failure(7, "error_event"),
)


def events(db, kind):
    with Engine.open(f"sqlite:///{db}", summarizer=None) as engine:
        return [
            stored.event
            for stream, _ in engine.sessions()
            for stored in engine.log.read(engine.find(stream))
            if isinstance(stored.event, kind)
        ]


def play(tmp_path, host, script, **more):
    """Play a short session to its end and return the stage behind it."""
    with stage(tmp_path / "r", host, script, managed=True, **more) as made:
        ran = made.play(scripts.PROMPT.format(track="main", step=0))
        last = made.records[-1]
        if last.failure == "error_event":  # there one host ends its turn, with foldlog or without: the person goes on
            ran = made.play(scripts.PROMPT.format(track="main", step=last.step), host.session_of(ran))
        assert (ran.code, host.said(ran)) == (0, "The list is done."), (ran.out[-2000:], ran.err[-2000:])
        assert [each.message for each in made.records if each.failure == "invalid"] == []
        return made


def test_busy_providers_and_broken_streams_are_lived_through(host, tmp_path):
    made = play(tmp_path, host, lambda work: scripts.trouble(work, host.WINDOW, TROUBLE))
    met = {each.failure for each in made.records if each.failure}
    assert met == {failure.kind for failure in TROUBLE}
    assert events(made.db, ev.OverflowReported) == [], "a busy provider was taken for a full window"
    asked = measure.main(made.records, measure.rows(made.db))
    assert [each.record.n for each in asked if each.cause == "unexplained"] == []
    wrong = [each.record.n for each in asked if each.changed and each.row.level == "defer" and not each.row.divergence]
    assert wrong == []


def test_an_overflow_is_learnt_and_the_work_goes_on(host, tmp_path):
    """The provider's window turns out smaller than configured. The proxy learns it, folds and asks again before the
    host sees anything; a plugin learns it, the turn ends with the provider's words, and the next one fits.
    """
    limit = host.WINDOW * 3 // 4
    failures = (Failure(9, "overflow", limit=limit, used=limit + 900),)
    script = lambda work: scripts.trouble(work, host.WINDOW, failures, steps=16)  # noqa: E731
    with stage(tmp_path / "r", host, script, managed=True) as made:
        ran = made.play(scripts.PROMPT.format(track="main", step=0))
        if not made.proxy_used and host.said(ran) != "The list is done.":
            ran = made.play(scripts.PROMPT.format(track="main", step=9), host.session_of(ran))
        assert (ran.code, host.said(ran)) == (0, "The list is done."), (ran.out[-2000:], ran.err[-2000:])
    told = events(made.db, ev.OverflowReported)
    assert len(told) == 1
    assert (told[0].limit, told[0].used) in {(limit, limit + 900), (0, 0)}  # one wire gives no figures
    assert [each.n for each in made.records if each.kind == "summary"] == [], "the host compacted by itself"
    assert [each.message for each in made.records if each.failure == "invalid"] == []
    refused = next(each for each in made.records if each.failure == "overflow")
    again = next(each for each in made.records if each.n > refused.n and each.step == 9)
    assert again.status == 200
    if made.proxy_used:
        assert measure.size(again) < measure.size(refused)


@pytest.mark.parametrize("bound", [False, True], ids=["signed", "bound"])
def test_thinking_comes_back_as_it_was(host, tmp_path, bound):
    """Signed thinking, and thinking bound to every byte before it: the provider checks each block it gets back."""
    if host.WIRE != "anthropic":
        pytest.skip("no signed thinking on this wire")
    model = f"{'claude' if host is claude else 'scripted'}-sonnet-5-5" if bound else ""
    script = lambda work: scripts.long(work, host.WINDOW, steps=24, stop=99, bound=bound)  # noqa: E731
    made = play(tmp_path, host, script, model=model)
    assert any(each.thinking for each in made.records)
    levels = {row.level for row in measure.rows(made.db)}
    assert levels & {"soft", "soft+"}, "nothing was rebuilt: nothing was shown"


def test_with_compaction_off_the_window_is_the_hosts(host, tmp_path):
    """No drops, no head, no numbers; what the host does by itself when the window is full, it does."""
    script = lambda work: scripts.long(work, host.WINDOW, steps=32, stop=99)  # noqa: E731
    with stage(tmp_path / "r", host, script, managed=True, policy="compaction = false") as made:
        ran = made.play(scripts.PROMPT.format(track="main", step=0))
        records = made.records
        bodies = [record.body_of(made.room.provider, each) for each in records]
    assert ran.code in {0, 1}
    said = [str(body.get("messages") or body.get("input")) for body in bodies]
    assert [text for text in said if "<session-history" in text] == []
    assert {row.landed for row in measure.rows(made.db)} <= {0}
    # later the answers of ctx_reduce and ctx_expand name numbers
    assert [text for text in said[:5] if re.search(r"§\d+§", text)] == []
    assert any(each.kind == "summary" or each.failure == "overflow" for each in records)
    assert [each.message for each in records if each.failure == "invalid"] == []

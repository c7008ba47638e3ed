"""What goes wrong between a host and its provider, with foldlog between them: the work goes on."""

from __future__ import annotations

import re

import pytest
from e2e import measure, scripts
from e2e.hosts import claude, codex, opencode
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

OTHERS = {
    "anthropic": "The model returned the following errors: prompt is too long: {used} tokens > {limit} maximum",
    "openai-chat": "This model's maximum prompt length is {limit} but the request contains {used} tokens.",
    "openai-responses": (
        "Input tokens exceed the configured limit of {limit} tokens. Your messages resulted in {used} tokens. Please "
        "reduce the length of the messages."
    ),
}
"""Words of other providers on the same wires: Bedrock, xAI, Azure."""


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


@pytest.mark.parametrize("wire", OTHERS)
def test_an_overflow_is_learnt_and_the_work_goes_on(host, tmp_path, wire):
    """The provider's window turns out smaller than configured, twice, in its own words and in another's. The proxy
    learns it, folds and asks again before the host sees anything; Pi and OMP are asked for one more request; on
    OpenCode the turn ends with the provider's words, and the next one fits.
    """
    if host in {claude, codex} and wire != host.WIRE:
        pytest.skip(f"{host.NAME} speaks {host.WIRE} alone")
    limit = host.WINDOW * 3 // 4
    failures = (
        Failure(6, "overflow", limit=limit, used=limit + 900),
        Failure(11, "overflow", limit=limit - 100, used=limit + 700, words=OTHERS[wire]),
    )
    script = lambda work: scripts.trouble(work, host.WINDOW, failures, steps=14)  # noqa: E731
    with stage(tmp_path / "r", host, script, managed=True, wire=wire) as made:
        ran = made.play(scripts.PROMPT.format(track="main", step=0))
        for failure in failures if host is opencode else ():
            assert ran.code != 0
            ran = made.play(scripts.PROMPT.format(track="main", step=failure.step), host.session_of(ran))
        assert (ran.code, host.said(ran)) == (0, "The list is done."), (ran.out[-2000:], ran.err[-2000:])
    told = [(each.limit, each.used) for each in events(made.db, ev.OverflowReported)]
    known = (limit, limit + 900) if wire != "openai-responses" else (0, 0)  # there its own words have no figures
    assert told == [known, (limit - 100, limit + 700)]
    assert [each.n for each in made.records if each.kind == "summary"] == [], "the host compacted by itself"
    begun = [line for line in ran.lines() if str(line.get("type")).endswith("compaction_start")]
    assert begun == [], "the host began to rewrite its history"
    assert [each.message for each in made.records if each.failure == "invalid"] == []
    refused = [each for each in made.records if each.failure == "overflow"]
    assert [each.step for each in refused] == [failure.step for failure in failures]
    for each in refused:
        again = next(other for other in made.records if other.n > each.n and other.kind == "step")
        assert (again.step, again.status) == (each.step, 200), "the model lost its place"
        assert measure.size(again) < measure.size(each)


@pytest.mark.parametrize("bound", [False, True], ids=["signed", "bound"])
def test_thinking_comes_back_as_it_was(host, tmp_path, bound):
    """Signed or encrypted thinking, and thinking bound to every byte before it: the provider checks what comes back."""
    if bound and host.WIRE != "anthropic":
        pytest.skip("thinking is bound to nothing on this wire")
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
    refused = "overflow" if host.NAME not in {"pi", "opencode"} else "nothing"
    assert any(each.kind == "summary" or each.failure == refused for each in records)
    assert [each.message for each in records if each.failure == "invalid"] == []

"""What breaks: beside the request it is left out and told, in what decides the request it stops the pass, unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

import foldlog
from foldlog import defects
from foldlog.domain import events as ev
from foldlog.domain import hygiene, identity
from foldlog.domain.passes import (
    landing,
    lanes,
    local,
    permission,
    protection,
    refusal,
    schedule,
    tagger,
    triggers,
    words,
)
from foldlog.domain.passes.given import Outlook
from foldlog.domain.passes.lanes import drops
from foldlog.projections import head, intake, observing, request, view
from support import ports
from support.talk import Chat, assistant, call, differences, events, fingerprint, result, use, user
from support.talk import words as tokens

ROOMY = {"context_limit": 1_000_000, "policy": {"protected_tokens": 0, "cache_ttl": "never"}}


def broken(*_: Any, **__: Any) -> Any:
    raise KeyError("what nobody thought of")


def breaks(monkeypatch: pytest.MonkeyPatch, table: Any, name: str, row: str, **how: Any) -> None:
    rows = getattr(table, name)
    assert row in [one.name for one in rows]
    monkeypatch.setattr(table, name, tuple(one._replace(**how) if one.name == row else one for one in rows))


def silent(host: Chat) -> Any:
    """A person comes back after twelve minutes."""
    return host.turn("back again", wait=720)


def loud(host: Chat) -> Any:
    """Nearly all that is sent is spent."""
    request = None
    for number in range(16):
        request = host.tool(f"t{number}", tokens(5_000) + str(number), n=number)
    return request


def chat() -> Chat:
    host = Chat(**ROOMY)
    use(host.say(user("start")), 100)
    return host


def asked(host: Chat) -> Any:
    """There is a person's question after a commit, notes wait, and something is found."""
    host.engine.ports.notes, host.engine.ports.search = ports.Notes(), ports.Search(ports.found())
    host.say(assistant("committed 1a2b3c4"), user("fine"))
    return host.turn("please look into the parser")


@pytest.mark.rule("FAIL-1")
@pytest.mark.parametrize(
    ("word", "what", "play", "said"),
    [
        ("time", "say", silent, b"+12m"), ("nudge", "say", loud, b"The oldest"),
        ("appeal", "say", loud, b"Before anything else"), ("hint", "say", asked, b"ctx-search-hint"),
        ("hint", "wants", asked, b"ctx-search-hint"), ("note", "say", asked, b"deferred_notes"),
        ("note", "wants", asked, b"deferred_notes"),
    ],
)  # fmt: skip
def test_a_word_that_breaks_costs_no_turn(
    word: str, what: str, play: Callable[[Chat], Any], said: bytes, monkeypatch: pytest.MonkeyPatch
):
    names = [one.name for one in words.WORDS]
    assert names == ["time", "hint", "note", "appeal", "nudge"], "a new word needs a row here"
    assert said in b"".join(play(chat()).messages_json)
    host = chat()
    with monkeypatch.context() as patch, capture_logs() as logs:
        breaks(patch, words, "WORDS", word, **{what: broken})
        made = play(host)
    assert said not in b"".join(made.messages_json)
    assert made.level == "defer"
    event = host.last()
    assert event.decision.left_out == (word,)
    (told,) = [one for one in logs if one["number"] == event.number]
    assert (told["part"], told["session"], told["log_level"]) == (word, "session/api/chat", "error")
    assert "KeyError at" in told["error"]
    assert "nobody thought of" not in told["error"], "no word of what was worked on"
    before = made.messages_json
    after = host.turn()
    assert after.messages_json[: len(before)] == before, "left out once is left out for ever"
    assert differences(host.engine) == []


@pytest.mark.rule("FAIL-1")
def test_a_quiet_pass_with_something_left_out_is_otherwise_quiet(monkeypatch: pytest.MonkeyPatch):
    plain, host = chat(), chat()
    breaks(monkeypatch, words, "WORDS", "time", say=broken)
    for one in (plain, host):
        one.turn()
    decision = host.last().decision
    assert (decision.schedule, decision.signals, decision.permission, decision.held) == ("defer", (), False, False)
    monkeypatch.undo()
    follows = host.turn()
    assert follows.reasons == ()
    assert follows.digest == plain.turn().digest


@pytest.mark.rule("FAIL-1")
def test_what_was_left_out_is_seen_among_the_passes(monkeypatch: pytest.MonkeyPatch):
    from foldlog.projections.timeline import timeline

    host = chat()
    breaks(monkeypatch, words, "WORDS", "time", say=broken)
    host.turn()
    assert timeline(host.engine.log, host.session.core.stream)[-1].left_out == ("time",)


def ready(host: Chat) -> None:
    """Bring a session to where each lane has its say: drops queued, everything seen by a rebuild, nearly full."""
    for number in range(6):
        use(host.tool(f"t{number}", tokens(900) + str(number), n=number), 120_000)
    host.session.report_cache_loss("said so")
    use(host.turn(), 150_000)
    for number in range(6, 12):
        request = host.tool(f"t{number}", tokens(900) + str(number), n=number)
    host.session.reduce("2")
    use(request, 180_000)
    host.messages += [assistant([call("last")]), user([result("last", "done")])]


@pytest.mark.rule("FAIL-2", "PROP-11")
@pytest.mark.parametrize("lane", [one.name for one in lanes.LANES])
@pytest.mark.parametrize("what", ["plan", "wants"])
def test_a_lane_that_breaks_stops_the_pass_and_changes_nothing(lane: str, what: str, monkeypatch: pytest.MonkeyPatch):
    host = Chat(lanes=True, policy={"protected_tokens": 0})
    host.say(user("start"))
    ready(host)
    before = fingerprint(host.session)
    with monkeypatch.context() as patch, capture_logs() as logs:
        breaks(patch, lanes, "LANES", lane, **{what: broken})
        with pytest.raises(foldlog.FoldlogError) as caught:
            host.again()
    (told,) = logs
    assert (told["part"], told["session"]) == (f"lane {lane}", "session/api/chat")
    assert told["error"].startswith("KeyError at ")
    assert caught.value.code == "PASS_FAILED"
    assert f"lane {lane}" in str(caught.value)
    assert "Nothing was sent" in str(caught.value)
    assert fingerprint(host.session) == before
    assert host.again(wait=0).level == "soft+"
    assert differences(host.engine) == []


@pytest.mark.rule("FAIL-2")
def test_each_lane_bears_the_name_its_work_is_told_by(monkeypatch: pytest.MonkeyPatch):
    names = [one.name for one in lanes.LANES]
    assert len(set(names)) == len(names)
    host = Chat(lanes=True, policy={"protected_tokens": 0})
    host.say(user("start"))
    ready(host)
    told: list[tuple[str, str]] = []

    def listening(lane: lanes.Lane) -> lanes.Lane:
        def plan(ask: Any) -> Any:
            work = lane.plan(ask)
            told.append((lane.name, work.lane))
            return work

        return lane._replace(plan=plan)

    monkeypatch.setattr(lanes, "LANES", tuple(listening(one) for one in lanes.LANES))
    host.again()
    assert {name for name, _ in told} == set(names)
    assert all(name == other for name, other in told)


@pytest.mark.rule("FAIL-2", "PROP-11")
@pytest.mark.parametrize(
    ("module", "name"),
    [
        (tagger, "tag"), (schedule, "gauge"), (triggers, "fold_reasons"), (permission, "permit"),
        (protection, "protected"), (drops, "queued"), (refusal, "check"), (local, "measure"), (words, "say"),
        (landing, "ask"), (landing, "lands"), (head, "fold"),
        (view, "preview"), (request, "follow"), (intake.Reader, "array"), (identity, "align"), (observing, "_same"),
        (observing, "take_in"),
    ],
    ids=lambda given: getattr(given, "__name__", given).rpartition(".")[2],
)  # fmt: skip
def test_all_else_that_decides_the_request_stops_the_pass_too(module: Any, name: str, monkeypatch: pytest.MonkeyPatch):
    host = Chat(lanes=True, model="a", policy={"protected_tokens": 0})
    host.say(user("start"))
    ready(host)
    if name == "fold":
        host.reopen(model="b")
    before = fingerprint(host.session)
    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr(module, name, broken)
        with pytest.raises(foldlog.PassFailed) as caught:
            host.again()
    assert [one["part"] for one in logs] == [caught.value.part]
    assert caught.value.code == "PASS_FAILED"
    assert fingerprint(host.session) == before
    assert host.again(wait=0).level in ("soft+", "hard")
    assert differences(host.engine) == []


@pytest.mark.rule("FAIL-2")
def test_a_first_pass_that_breaks_makes_no_session(monkeypatch: pytest.MonkeyPatch):
    host = Chat()
    with monkeypatch.context() as patch:
        patch.setattr(tagger, "tag", broken)
        with pytest.raises(foldlog.PassFailed):
            host.say(user("start"))
    assert host.engine.sessions() == []
    assert host.again().level == "hard"


class Watcher:
    """Summaries of which only looking for one breaks."""

    def __init__(self, breaks: bool) -> None:
        self.breaks = breaks

    def outlook(self, core: Any) -> Outlook:
        return broken() if self.breaks else Outlook()

    def watch(self, core: Any) -> None:
        broken()

    def relieve(self, core: Any, waiting: Any) -> bool:
        return False

    def close(self) -> None:
        pass


@pytest.mark.rule("FAIL-3")
def test_looking_for_a_summary_behind_the_request_costs_no_turn():
    host = Chat()
    host.session.core.summaries = Watcher(breaks=False)
    with capture_logs() as logs:
        made = host.say(user("start"))
        use(made, 1_000)
    assert made.level == "hard"
    assert {one["part"] for one in logs} == {"summaries"}


@pytest.mark.rule("FAIL-2")
def test_what_summaries_say_of_the_pass_decides_it():
    host = Chat(policy={"protected_tokens": 0})
    host.say(user("start"))
    for number in range(8):
        request = host.tool(f"t{number}", "word " * 900, n=number)
    host.session.reduce("2-7")
    use(request, 140_000)
    host.session.core.summaries = Watcher(breaks=True)
    with pytest.raises(foldlog.PassFailed):
        host.turn()
    host.session.core.summaries = None
    assert host.turn().level == "soft+"


@pytest.mark.rule("FAIL-2", "PROP-11")
@pytest.mark.parametrize(
    ("call", "given"),
    [("prepare", ""), ("last_good", ""), ("advance", ""), ("advance", "revised"), ("advance", "retracted")],
)
def test_what_the_host_sent_is_read_under_the_same_guard(call: str, given: str, monkeypatch: pytest.MonkeyPatch):
    host = chat()
    before = fingerprint(host.session)
    changes = {"revised": {"revised": [(1, user("other"))]}, "retracted": {"retracted": [1]}}.get(given, {})
    target = (identity, "edit") if changes else (intake.Reader, "array" if call == "prepare" else "raws")
    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr(*target, broken)
        with pytest.raises(foldlog.PassFailed):
            getattr(host.session, call)([*host.messages, user("more")] if call != "advance" else [], **changes)
    assert len(logs) == 1
    assert fingerprint(host.session) == before
    assert host.turn().level == "defer"


class Relief(Watcher):
    """Summaries of which the wait at 95% breaks, or tells the host of it."""

    def outlook(self, core: Any) -> Outlook:
        return Outlook()

    def watch(self, core: Any) -> None:
        pass

    def relieve(self, core: Any, waiting: Any) -> bool:
        return broken() if self.breaks else waiting("a summary is being made") or False


def pressed(host: Chat, breaks: bool) -> None:
    host.say(user("start"))
    ready(host)
    use(host.again(), 192_000)
    host.messages += [assistant("more"), user("and more")]
    host.session.core.summaries = Relief(breaks)


def offended(_: str) -> None:
    raise ValueError("the host's screen is gone")


@pytest.mark.rule("FAIL-3", "FAIL-5", "PROP-11")
@pytest.mark.parametrize("breaks", ["the wait", "the notice"])
def test_a_wait_for_a_summary_that_breaks_costs_no_turn(breaks: str):
    """At 95% the pass sends what it would have sent had the summary not come in time."""
    made = []
    for silent in (True, False):
        host = Chat(lanes=True, policy={"protected_tokens": 0})
        pressed(host, breaks=breaks == "the wait" and not silent)
        with capture_logs() as logs:
            made.append(host.session.prepare(host.messages, waiting=(lambda _: None) if silent else offended))
        assert len(logs) == (0 if silent else 1), logs
        assert differences(host.engine) == []
    assert logs[0]["part"] == ("waiting for a summary" if breaks == "the wait" else "waiting")
    assert "Error at " in logs[0]["error"]
    assert "screen" not in str(logs), "no word of what was worked on"
    assert made[0].messages_json == made[1].messages_json


@pytest.mark.rule("FAIL-5")
def test_a_busy_store_met_while_waiting_is_told_as_that():
    class Busy(Relief):
        def relieve(self, core: Any, waiting: Any) -> bool:
            raise foldlog.StoreBusy("locked")

    host = Chat(lanes=True, policy={"protected_tokens": 0})
    pressed(host, breaks=False)
    host.session.core.summaries = Busy(breaks=False)
    with pytest.raises(foldlog.StoreBusy):
        host.again()


@pytest.mark.rule("FAIL-4", "ACC-19")
@pytest.mark.parametrize("when", ["grow", "count"])
def test_counting_what_is_spent_never_stops_a_log_from_folding(when: str, monkeypatch: pytest.MonkeyPatch):
    host = chat()
    loud(host)
    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr(hygiene, f"_{when}", broken)
        if when == "count":
            host.session.report_cache_loss("said so")
        before = host.turn().messages_json
        host.session.core._hot = None
        after = host.turn()
    assert when == "grow" or after.messages_json[: len(before)] == before
    assert host.last().decision.left_out == ("hygiene",)
    assert {one["part"] for one in logs} == {"hygiene"}
    host.session.report_cache_loss("said so")
    host.turn()
    host.turn()
    assert host.last().decision is None, "counted anew by the rebuild"
    assert [one for one in events(host.session, ev.PassDeferred) if one.decision and one.decision.left_out]


@pytest.mark.rule("FAIL-3")
def test_a_program_foldlog_is_embedded_in_keeps_its_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(structlog, "is_configured", lambda: False)
    breaks(monkeypatch, words, "WORDS", "time", say=broken)
    chat()
    printed = capsys.readouterr()
    assert printed.out == ""
    assert defects.LEFT_OUT in printed.err

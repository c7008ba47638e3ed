"""Traps of history and folds: each was a real defect of the reference once (transform.md 9 and 10)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import foldlog
from foldlog.domain import events as ev
from foldlog.domain.passes.given import Outlook
from foldlog.projections import head
from support.past import WINDOW, Clock, Hanging, Scripted, opened, press, summarise, talk, texts, work
from support.talk import Chat, assistant, differences, events, fingerprint, use, user, words

BARE = {"protected_tokens": 0}


def chat(url: str = "memory:", **how: Any) -> Chat:
    made = {name: how.pop(name) for name in ("hook", "clock", "summarizer") if name in how}
    return Chat(opened(url, **made), context_limit=WINDOW, **{"policy": BARE, **how})


def broken(*_: Any, **__: Any) -> Any:
    raise KeyError("what nobody thought of")


def goes_on(before: Any, after: Any) -> bool:
    return after.messages_json[: len(before.messages_json)] == before.messages_json


class Running:
    """Summaries of which one is always on its way."""

    def outlook(self, core: Any) -> Outlook:
        return Outlook(coming=True)

    def watch(self, core: Any) -> None: ...

    def relieve(self, core: Any, waiting: Any) -> bool:
        return False

    def close(self) -> None: ...


def begun(host: Chat, lease: int = 10**15) -> None:
    """Let a summariser of another process be at work."""
    host.session.core.command(lambda hot, at: [ev.HistorianStarted(at, "", "run", 1, 4, b"f", "other", lease)])


@pytest.mark.rule("T6", "FAIL-2")
@pytest.mark.parametrize("what", ["fold", "refresh"])
def test_a_head_that_cannot_be_made_opens_no_gate(what: str, monkeypatch: pytest.MonkeyPatch):
    """T35 too: the cut moves with the head it is moved by, in one event, or not at all."""
    host = chat(model="a")
    request = talk(host, 20)
    work(host, 4)
    host.session.reduce(str(next(n for n, tag in enumerate(host.state.tags, 1) if tag.kind == "tool")))
    summarise(host, 16)
    if what == "fold":
        host.reopen(model="b")
    else:
        press(host, talk(host, 1))
    host.messages += [assistant("ok"), user("go on")]
    before, queued = fingerprint(host.session), dict(host.state.queue)
    with monkeypatch.context() as patch:
        patch.setattr(head, what, broken)
        with pytest.raises(foldlog.PassFailed):
            host.again()
    assert fingerprint(host.session) == before
    assert (host.state.cut, host.state.queue) == (0, queued)
    request = host.again(wait=0)
    assert request.level == ("hard" if what == "fold" else "soft")
    assert host.state.cut == 16
    assert not host.state.queue
    assert "1-16" in "".join(texts(request)), "what the cut hides stands in the head"


@pytest.mark.rule("T35")
def test_no_history_is_ever_in_neither_place():
    """At each step every message is behind the cut or covered by what the head shows, also right after a restart."""
    host = chat()
    request = talk(host, 20)
    for end in (10, 18, 26):
        summarise(host, end)
        press(host, request)
        request = talk(host, 1)
        host.session.core._hot = None
        shown = "".join(texts(host.again()))
        spans = [(one.first, one.last) for one in host.state.compartments if f"## {one.first}-{one.last}" in shown]
        covered = {m for first, last in spans for m in range(first, last + 1)}
        assert covered == set(range(1, host.state.cut + 1))
        request = talk(host, 4)


@pytest.mark.rule("T9", "ACC-5", "FOLD-4")
def test_a_fold_drains_the_queue_while_a_summary_is_made_and_nothing_else_does():
    host = chat(model="a")
    talk(host, 4)
    work(host, 6)
    host.session.reduce("8-10")
    begun(host)
    request = talk(host, 1)
    assert request.level == "defer"
    press(host, request)
    assert talk(host, 1).level == "defer", "the summary under way lands first"
    assert len(host.state.queue) == 3
    host.reopen(model="b")
    folded = talk(host, 1)
    assert folded.level == "hard"
    assert not host.state.queue
    after = talk(host, 1)
    assert (after.level, goes_on(folded, after)) == ("defer", True), "not a second one when the summary is there"


@pytest.mark.rule("ACC-5")
def test_a_plain_pass_without_a_fold_drains_nothing():
    host = chat()
    talk(host, 4)
    work(host, 6)
    host.session.reduce("8-10")
    request = talk(host, 1)
    for _ in range(4):
        after = talk(host, 1)
        assert goes_on(request, after)
        request = after
    assert len(host.state.queue) == 3


@pytest.mark.rule("ACC-6")
def test_a_summary_made_ahead_and_one_waited_for_give_the_same_bytes():
    """Published long before the pass that shows it, or while that pass waits for it: one head."""

    def play(ahead: bool) -> Any:
        clock = Clock()
        host = chat(clock=clock)
        talk(host, 20)
        core = host.session.core
        if ahead:
            summarise(host, 16)
            press(host, host.again(), 96)
        else:
            press(host, host.again(), 96)

            class Late(Running):
                def relieve(self, core: Any, waiting: Any) -> bool:
                    summarise(host, 16)
                    return True

            core.summaries = Late()
        return talk(host, 1)

    one, other = play(ahead=True), play(ahead=False)
    assert one.messages_json == other.messages_json
    assert one.digest == other.digest
    assert (one.level, other.level) == ("soft", "soft")


@pytest.mark.rule("ACC-4")
def test_the_pass_that_moves_the_cut_serves_what_the_next_one_builds_from_the_hosts_whole_array():
    """No marker is written into a host's store: its array stays whole, and the cut is ours alone."""
    host = chat()
    request = talk(host, 20)
    summarise(host, 16)
    press(host, request)
    moved = talk(host, 1)
    assert moved.level == "soft"
    assert len(host.messages) > len(moved.built.messages)
    host.session.core._hot = None
    assert host.again(wait=0).digest == moved.digest
    after = talk(host, 1)
    assert goes_on(moved, after)
    assert differences(host.engine) == []


@pytest.mark.rule("T33", "ACC-15", "INV-3")
def test_what_is_published_rides_m1_and_leaves_m0_as_it_was():
    host = chat()
    request = talk(host, 20)
    m0 = texts(request)[0]
    for end in (16, 24):
        summarise(host, end)
        press(host, talk(host, 3))
        shown = talk(host, 1)
        assert shown.level == "soft"
        assert texts(shown)[0] == m0
        after = talk(host, 1)
        assert texts(after) == texts(shown)
        assert after.level == "defer"


@pytest.mark.rule("ACC-15")
def test_a_fold_is_stable_at_once():
    host = chat()
    request = talk(host, 20)
    summarise(host, 16)
    host.session.report_cache_loss("said so")
    folded = talk(host, 1)
    assert folded.level == "hard"
    assert texts(folded)[0] != texts(request)[0]
    for _ in range(3):
        after = talk(host, 1)
        assert (after.level, goes_on(folded, after)) == ("defer", True)


@pytest.mark.rule("T42")
def test_summaries_made_again_leave_the_served_pair_until_a_fold_may_change_it():
    host = chat()
    request = talk(host, 20)
    summarise(host, 16)
    press(host, request)
    shown = talk(host, 1)
    (old,) = host.state.compartments
    new = msgspec.structs.replace(old, seq=old.seq + 1)
    host.session.core.command(lambda hot, at: [ev.CompartmentsReplaced(at, "", (old.seq,), (new,))])
    assert host.engine.replay("chat").messages == shown.built.messages, "served again, it is what it was"
    kept = host.session.core.hot().view.m0, host.session.core.hot().view.m1
    side = host.session.prepare([user("a title, please")], now=host.now)
    assert side.level == "defer"
    view = host.session.core.hot().view
    assert (view.m0, view.m1) == kept, "a request beside the head renders nothing"
    folded = talk(host, 1)
    assert (folded.level, folded.reasons) == ("hard", ("cut_void",))


@pytest.mark.rule("T34", "LAW-2")
def test_what_is_rendered_depends_on_no_clock():
    """The same session on another day, in a process of another time: the same bytes, on every pass."""

    def play(begin: int) -> list[bytes]:
        clock = Clock()
        clock.now += begin
        host = chat(clock=clock)
        digests = []
        request = talk(host, 20)
        summarise(host, 16)
        press(host, request)
        for _ in range(3):
            clock.now += begin // 7
            digests.append(talk(host, 1).digest)
        host.session.report_cache_loss("said so")
        digests.append(talk(host, 1).digest)
        return digests

    assert play(0) == play(400 * 86_400_000)


@pytest.mark.rule("T37", "HIST-29")
def test_waiting_is_told_once_a_run_and_makes_no_request():
    """A notice a pass became a message of the user, and each message a pass."""
    hanging = Hanging()
    engine = opened("memory:", hanging, inline=False, timeout_ms=50)
    host = Chat(engine, context_limit=WINDOW, policy=BARE)
    try:
        request = talk(host, 20)
        told: list[str] = []
        for _ in range(6):
            press(host, request, 96)
            request = talk(host, 1, waiting=told.append)
        assert hanging.begun.is_set()
        assert len(told) == 1
        passes = [one for one in events(host.session) if isinstance(one, ev.Pass)]
        assert len(passes) == 26
        assert len(host.state.path) == len(host.messages), "nothing of ours became a message of the session"
    finally:
        hanging.go.set()
        engine.close()


@pytest.mark.rule("T37", "HIST-29", "LAW-1")
def test_a_run_is_waited_for_once_by_whichever_process(tmp_path: Any):
    """That a pass waited in vain is in the log: a restart, or another process, does not wait for the same run again."""
    url = f"sqlite:///{tmp_path / 'log.db'}"
    host = Chat(opened(url, Scripted(), inline=False, timeout_ms=50), context_limit=WINDOW, policy=BARE)
    request = talk(host, 12)
    begun(host)
    told: list[str] = []
    for _ in range(4):
        press(host, request, 96)
        request = talk(host, 1, waiting=told.append)
        host.engine.close()
        host.engine = opened(url, Scripted(), inline=False, timeout_ms=50)
        host.session = host.engine.session("chat", **host.options)
        request = host.session.reopen()
    assert len(told) == 1
    assert (
        sum("summary_wait" in (one.decision.signals if one.decision else ()) for one in events(host.session, ev.Pass))
        == 1
    )
    assert differences(host.engine) == []
    host.engine.close()


@pytest.mark.rule("PERM-2", "LAW-1", "HIST-28")
@pytest.mark.parametrize(("drop", "level"), [("60-85", "soft"), ("30-90", "defer")])
def test_whether_drops_wait_for_a_summary_is_the_same_after_a_restart(drop: str, level: str, tmp_path: Any):
    made = []
    for restart in (False, True):
        url = f"sqlite:///{tmp_path / str(restart)}.db"
        policy = {"protected_tokens": 0, "cache_ttl": "never"}
        host = Chat(opened(url, Scripted()), context_limit=200_000, policy=policy)
        use(host.say(user("start")), 100)
        for number in range(30):
            use(host.tool(f"t{number}", words(2_000) + str(number), n=number), min(2_500 * number, 60_000))
            request = host.turn()
            use(request, 60_000)
        host.session.reduce(drop)
        use(request, 140_000)
        if restart:
            host.engine.close()
            host.engine = opened(url, Scripted())
            host.session = host.engine.session("chat", **host.options)
        made.append(host.turn().level)
        host.engine.close()
    assert made == [level, level]


@pytest.mark.rule("T25", "PERM-2", "HIST-28")
def test_drops_land_where_no_summary_can_ever_come():
    """The summariser is off, or failed for good: a held drop lands after a stated number of passes."""
    host = chat()
    talk(host, 4, 10)
    request = work(host, 8, 40)
    host.session.reduce("8")
    levels = []
    for _ in range(4):
        press(host, request)
        request = talk(host, 1, 10)
        levels.append(request.level)
    assert levels.count("soft+") == 1
    assert not host.state.queue


@pytest.mark.rule("T54", "T55", "API-7")
def test_a_publication_between_reading_and_writing_a_pass_loses_neither(tmp_path: Any):
    """Another process publishes and queues while a pass is decided: both are in the log, the pass is decided anew."""
    url = f"sqlite:///{tmp_path / 'log.db'}"
    host = chat(url)
    talk(host, 20)
    other = Chat(opened(url), context_limit=WINDOW, policy=BARE)
    real, done = host.session.core.log.append, []

    def late(*given: Any, **named: Any) -> Any:
        if not done:
            done.append(1)
            summarise(other, 16)
            other.session.reduce("30,31")
        return real(*given, **named)

    host.session.core.log.append = late  # type: ignore[method-assign]
    request = talk(host, 1)
    assert request.level == "defer"
    assert sorted(host.state.queue) == [30, 31]
    assert [one.last for one in host.state.compartments] == [16]
    assert len([one for one in events(host.session) if isinstance(one, ev.Pass)]) == 21
    assert differences(host.engine) == []

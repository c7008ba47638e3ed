"""What an engine asks beside the log: within one deadline, never at the cost of a turn."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

import foldlog
import foldlog.ports
from foldlog.domain import events as ev
from support import ports
from support.talk import Chat, assistant, differences, events, use, user

ASKED = "please fix the parser of the tokenizer"


class Host(Chat):
    """A conversation with both ports, that waits for them a moment only."""

    def __init__(self, deadline: float = 0.2) -> None:
        self.notes, self.searches = ports.Notes(), ports.Search(ports.found())
        super().__init__(foldlog.Engine.open("memory:", summarizer=None, notes=self.notes, search=self.searches))
        self.engine.ports.deadline = deadline
        use(self.say(user("start")), 100)
        self.say(assistant("committed 1a2b3c4"), user("fine"))

    def told(self) -> dict[str, str]:
        decision = events(self.session, ev.Pass)[-1].decision
        return {one.word: one.outcome for one in decision.asked}


@pytest.mark.rule("SAY-6")
def test_the_deadline_is_three_seconds():
    host = Host(3.0)
    assert foldlog.Engine.open("memory:").ports.deadline == 3.0
    host.turn(ASKED)
    assert host.searches.calls[-1][3] == 3.0


@pytest.mark.rule("SAY-6", "NOTE-4", "PROP-8")
def test_one_deadline_holds_for_all(monkeypatch: pytest.MonkeyPatch):
    clock, waits = iter([10.0, 10.5, 12.5]), list[float]()

    class Call:
        def __init__(self, run: Any) -> None:
            self.done = self

        def wait(self, seconds: float) -> bool:
            waits.append(seconds)
            return False

        def is_set(self) -> bool:
            return False

    host = Host(3.0)
    monkeypatch.setattr(foldlog.ports, "_Call", Call)
    monkeypatch.setattr(foldlog.ports, "time", SimpleNamespace(monotonic=clock.__next__))
    host.turn(ASKED)
    assert waits == [2.5, 0.5]
    assert host.told() == {"hint": "late", "note": "late"}


@pytest.mark.rule("SAY-6", "NOTE-4", "PROP-8")
def test_what_hangs_delays_one_turn_and_not_the_next():
    host = Host()
    host.notes.says = hang = ports.Hang()
    host.searches.says = slow = ports.Hang()
    request = host.turn(ASKED)
    assert host.told() == {"hint": "late", "note": "late"}
    assert request.level == "defer"
    assert host.last().decision.left_out == (), "nothing broke"
    host.turn("then the next of them, please")
    assert (hang.begun, slow.begun) == (1, 1), "who still hangs is not asked again"
    hang.let_go.set()
    slow.let_go.set()
    while not all(call.done.wait(5) for call in host.engine.ports._late.values()):
        pass
    host.notes.says, host.searches.says = foldlog.Waiting(1, 0, 0), (ports.found(),)
    request = host.turn("and the one after that")
    assert host.told() == {"hint": "said", "note": "said"}, "the occasion was still there"
    assert differences(host.engine) == []


@pytest.mark.rule("SAY-6", "NOTE-4", "FAIL-1")
@pytest.mark.parametrize("port", ["note", "hint"])
@pytest.mark.parametrize(
    "says",
    [
        ports.broken(), ports.broken(lambda: foldlog.StoreBusy("busy")), ports.broken(KeyboardInterrupt), None, 7,
        "none", [None], [ports.found(kind="other")], [ports.found(score=float("nan"))],
        [ports.found(score=float("inf"))], [ports.found(score=True)],
        [ports.found(score="0.9")], [ports.found(text=None)], [ports.found(sha=1)], foldlog.Waiting(-1),
        foldlog.Waiting(True), foldlog.Waiting(1, 1, 2**70), foldlog.Waiting(1.0), {"notes": 1},
    ],
)  # fmt: skip
def test_a_port_that_breaks_is_left_out(port: str, says: Any):
    host, plain = Host(), Host()
    fake: Any = host.notes if port == "note" else host.searches
    fake.says = says
    with capture_logs() as logs:
        request = host.turn(ASKED)
    assert request.level == plain.turn(ASKED).level == "defer"
    event = host.last()
    assert event.decision.left_out == (port,)
    assert port not in host.told()
    assert len(host.told()) == 1, "the other one is told all the same"
    (told,) = logs
    assert (told["part"], told["session"], told["number"]) == (port, "session/api/chat", event.number)
    assert "nobody thought of" not in str(told)
    before = request.messages_json
    fake.says = foldlog.Waiting(1) if port == "note" else (ports.found("in time"),)
    after = host.turn("now then, all of it once more")
    assert after.messages_json[: len(before)] == before, "left out once is left out for ever"
    assert host.told()["hint"] == "said"
    assert host.told().get("note") == ("said" if port == "note" else None)
    assert differences(host.engine) == []


@pytest.mark.rule("SAY-6")
def test_a_decision_that_is_made_again_asks_nothing_twice():
    """Another process tells something while this one asks: what was heard still counts."""
    host = Host()
    told = []

    def meanwhile() -> Any:
        if not told:
            told.append(host.session.core.stream)
            log = host.engine.log
            end = log.head(told[0])
            assert end is not None
            log.append(told[0], end.version, [ev.CacheLossReported(1, "other", "said so")], ())
        return (ports.found(),)

    host.searches.says = meanwhile
    request = host.turn(ASKED)
    assert request.level == "hard", "it knows of it"
    assert host.told() == {"hint": "said", "note": "said"}
    assert len(host.searches.calls) == len(host.notes.calls) == 1


@pytest.mark.rule("SAY-6")
def test_a_late_answer_is_asked_for_again_while_no_request_holds_the_words():
    host = Host()
    host.turn("word " * 25_000).report_failure("overflow", limit=20_000, used=25_100)
    host.messages.append(user(ASKED))
    host.searches.says = ports.broken()
    for _ in range(2):
        with pytest.raises(foldlog.Refused):
            host.again()
    assert host.searches.queries[1:] == [ASKED, ASKED]


@pytest.mark.rule("SAY-6")
def test_sessions_ask_at_the_same_time():
    host = Host(5.0)
    both = threading.Barrier(2, timeout=5)
    host.searches.says = lambda: both.wait() * 0 or (ports.found(),)
    made: list[Any] = []

    def ask(name: str) -> None:
        made.append(host.engine.session(name, context_limit=200_000).prepare([user(ASKED)]))

    threads = [threading.Thread(target=ask, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert [b"ctx-search-hint" in b"".join(one.messages_json) for one in made] == [True, True]


@pytest.mark.rule("SAY-6")
def test_contents_that_cannot_be_read_cost_a_word_alone(monkeypatch: pytest.MonkeyPatch):
    host = Host()
    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr(type(host.session.core), "_content", lambda *_: ports.broken()())
        request = host.turn(ASKED)
    assert request.level == "defer"
    assert host.last().decision.left_out == ("hint", "note")
    assert {one["part"] for one in logs} == {"hint", "note"}
    assert b"ctx-search-hint" not in b"".join(request.messages_json)
    assert b"deferred_notes" in b"".join(host.turn("on").messages_json), "it is still due"


@pytest.mark.parametrize("name", ["notes", "search", "summarizer"])
@pytest.mark.parametrize("wrong", [5, object(), {"waiting": 1}])
def test_what_cannot_be_a_port_is_refused_at_once(name: str, wrong: Any):
    """And not found out as a part that breaks in every turn."""
    with pytest.raises(foldlog.OptionError) as caught:
        foldlog.Engine.open("memory:", **{name: wrong})
    assert name in str(caught.value)
    foldlog.Engine.open("memory:", **{name: None}).close()

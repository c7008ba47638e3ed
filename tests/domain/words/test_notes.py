"""Notes of the agent that wait: when it is reminded of them, when not, and what of that a log keeps."""

from __future__ import annotations

import json
import re
from itertools import count
from typing import Any

import pytest

import foldlog
from foldlog.adapters.models.tokens import ENCODING, tokenizer
from foldlog.domain import events as ev
from foldlog.domain.edits import SetText
from foldlog.storage.stores import open_store
from support import ports
from support.past import summarise
from support.talk import Chat, assistant, call, differences, events, result, text, use, user

COMMIT = "Done: committed as 1a2b3c4."


class Clock:
    """A wall clock that goes on a second a look."""

    def __init__(self) -> None:
        self.ms = count(1_800_000_000_000, 1_000)
        self.now = 0

    def __call__(self) -> int:
        self.now = next(self.ms)
        return self.now


class Host(Chat):
    """A conversation whose engine has notes. ``clock``: its wall clock."""

    def __init__(self, notes: ports.Notes | None = None, url: str = "memory:", **options: Any) -> None:
        self.clock, self.notes = Clock(), notes or ports.Notes(2)
        engine = foldlog.Engine(open_store(url), tokenizer(), ENCODING, self.clock, notes=self.notes)
        super().__init__(engine, **{"context_limit": 1_000_000, **options})
        use(self.say(user("start")), 100)

    def tell(self, *before: Any, said: str = "go on", wait: float = 10) -> foldlog.Request:
        """Take an answer that tells of a commit and what a person says to it; then another answer, other words."""
        use(self.say(assistant([*before, text(COMMIT)]), user("fine")), 100)
        return self.turn(said, wait=wait)

    def outcome(self) -> str:
        """Return what became of the reminder on the newest pass."""
        decision = events(self.session, ev.Pass)[-1].decision
        return next((one.outcome for one in decision.asked if one.word == "note"), "") if decision else ""


def reminders(request: foldlog.Request) -> list[str]:
    said = b"\n".join(request.messages_json).decode()
    return re.findall(r'<instruction name=\\"deferred_notes\\">(.*?)</instruction>', said)


# ------------------------------------------------------------------ occasions


@pytest.mark.rule("NOTE-1", "T12")
def test_a_commit_is_occasion_with_the_next_new_words():
    host = Host()
    before = host.say(assistant(COMMIT), user("fine"))
    assert reminders(before) == []
    assert host.notes.calls == []
    assert host.session.status().reminder_due
    request = host.turn("what next?")
    (said,) = reminders(request)
    assert said.startswith("2 notes of yours wait")
    assert host.notes.calls == ["api/chat"]
    assert not host.session.status().reminder_due
    assert request.messages_json[: len(before.messages_json)] == before.messages_json
    (stored,) = [e for a in host.last().arrivals for e in a.edits if isinstance(e, SetText) and e.kind == "note"]
    assert (stored.slot, stored.m, stored.p) == ("post", host.state.end(), 0)
    after = host.turn("and then?")
    assert after.messages_json[: len(request.messages_json)] == request.messages_json
    assert len(reminders(after)) == 1, "once, and for ever"
    assert differences(host.engine) == []


@pytest.mark.rule("NOTE-1")
def test_a_summary_and_a_list_that_is_done_are_occasions_too():
    host = Host()
    host.turn("more")
    summarise(host, 2)
    assert len(reminders(host.turn("on"))) == 1
    host = Host()
    done = call(
        "t", "TodoWrite", todos=[{"content": "a", "status": "completed"}, {"content": "b", "status": "cancelled"}]
    )
    host.say(assistant([done]), user([result("t", "ok")]))
    assert len(reminders(host.turn("on"))) == 1


@pytest.mark.rule("NOTE-1")
@pytest.mark.parametrize(
    "answer",
    [
        "I looked at 1a2b3c4 only.", "All merged.", "defaced and efface", "merge 123456",
        [call("t", "TodoWrite", todos=[{"status": "completed"}, {"content": "b", "status": "pending"}])],
        [call("t", "TodoWrite", todos=[])], [call("t", "TodoWrite", todos="completed")], [call("t", "TodoWrite")],
        [call("t", "TodoWrite", todos=["completed"])], [call("t", "list", todos=[{"status": "completed"}])],
        [call("t", "ctx_note", action="write", content="see to it")],
    ],
)  # fmt: skip
def test_nothing_else_is_occasion(answer: Any):
    host = Host()
    host.say(assistant(answer), user("fine" if isinstance(answer, str) else [result("t", COMMIT)]))
    assert reminders(host.turn(COMMIT)) == []
    assert host.notes.calls == []


@pytest.mark.rule("NOTE-1")
@pytest.mark.parametrize(
    "said", ["merged 1a2b3c4", "cherry-picked 0123456789abcdef0123456789abcdef01234567", "Rebasing onto ABCDEF1 now"]
)
def test_what_tells_of_a_commit(said: str):
    host = Host()
    host.say(assistant(said), user("fine"))
    assert len(reminders(host.turn())) == 1


@pytest.mark.rule("NOTE-1")
@pytest.mark.parametrize(("between", "again"), [(0, False), (4, False), (5, True)])
def test_only_the_first_commit_among_five_answers_is_occasion(between: int, again: bool):
    host = Host()
    host.tell()
    assert len(host.notes.calls) == 1
    for _ in range(between - 1):
        host.turn()
    host.say(assistant(COMMIT), user("fine"), wait=1_000)
    assert len(reminders(host.turn())) == 1 + again


@pytest.mark.rule("NOTE-1", "T12")
def test_it_waits_for_a_persons_own_new_words_at_the_end():
    host = Host()
    host.say(assistant([text(COMMIT), call("a")]), user([result("a", "x")]))
    assert reminders(host.tool("b", "y")) == [], "a tool's output is nobody's words"
    request = host.say(assistant("so"), user("<system-reminder>\nthe host says this\n</system-reminder>"))
    assert reminders(request) == [], "nor what a host puts in"
    host.messages += [assistant("ok"), user("buried"), assistant("and on")]
    assert reminders(host.say(assistant([call("c")]), user([result("c", "z")]))) == []
    assert host.notes.calls == []
    request = host.turn("now me")
    assert len(reminders(request)) == 1
    assert "deferred_notes" in json.dumps(request.messages[-1])


@pytest.mark.rule("NOTE-1")
def test_what_was_there_at_the_occasion_is_not_it_even_unsent():
    """A first request with a long past: its own last words are there when the commit is seen."""
    host = Host()
    other = Host(host.notes)
    other.messages = [user("start"), assistant(COMMIT), user("fine"), assistant("so"), user("and now?")]
    other.session = other.engine.session("new", context_limit=1_000_000)
    assert reminders(other.again()) == []
    assert len(reminders(other.turn("then this"))) == 1


@pytest.mark.rule("NOTE-1")
def test_what_grows_is_read_as_it_grows():
    host = Host()
    host.say(assistant([text("working")]))
    host.messages[-1] = assistant([text("working"), text(COMMIT)])
    host.again()
    assert host.last().decision.noticed == (ev.Noticed("commit", 2, 1, True),)
    host.messages[-1] = assistant([text("working"), text(COMMIT), text("and merged 1a2b3c5")])
    host.again()
    assert host.last().decision.noticed == (ev.Noticed("commit", 2, 2, False),), "of the same answer"
    assert len(reminders(host.say(user("well done")))) == 1


@pytest.mark.rule("NOTE-1")
def test_a_message_written_anew_is_no_new_message():
    host = Host()
    host.say(assistant(COMMIT), user("fine"))
    assert reminders(host.advance(revised=[(host.state.end(), user("fine, in other words"))])) == []
    assert host.notes.calls == []


@pytest.mark.rule("NOTE-2")
def test_of_many_calls_the_newest_are_read():
    host = Host()
    calls = [call(f"n{n}", "ctx_note", action="write", content="x") for n in range(12)]
    calls.append(call("n", "ctx_note", action="read"))
    host.say(assistant(calls), user([result(one["id"], "ok") for one in calls]))
    assert host.last().decision.noticed == (ev.Noticed("read", 2, 12, False),)


@pytest.mark.rule("NOTE-1", "LAST-6")
@pytest.mark.parametrize("what", ["commit", "read"])
def test_what_went_out_without_a_pass_is_read_too(what: str):
    host = Host()
    if what == "read":
        host.tell(said="on")
        host.say(assistant(COMMIT), user("fine"), wait=2_000)
        given = [call("n", "ctx_note", action="read")]
        host.messages += [assistant(given), user([result("n", "- #1")]), assistant("so"), user("raw")]
    else:
        host.messages += [assistant(COMMIT), user("one no pass tells of")]
    host.messages += [assistant("ok"), user("fine")]
    told = len(reminders(host.again()))
    assert events(host.session, ev.LastGoodReplayed)
    assert told == (what == "read")
    assert len(reminders(host.turn("and on"))) == 1
    assert host.outcome() == ("said" if what == "commit" else "")


@pytest.mark.rule("NOTE-1")
def test_it_stands_in_the_first_text_of_the_message():
    host = Host()
    host.say(assistant(COMMIT), user("fine"))
    request = host.say(assistant("ok"), user([text("one"), text("two")]))
    first, second = request.messages[-1]["content"]
    assert "deferred_notes" in first["text"]
    assert "deferred_notes" not in second["text"]


@pytest.mark.rule("NOTE-1")
@pytest.mark.parametrize(
    ("notes", "ready", "said"),
    [(1, 0, "1 note of yours waits"), (0, 1, "1 whose time has come waits"), (3, 2, "3 notes of yours and 2 whose")],
)
def test_it_says_how_many(notes: int, ready: int, said: str):
    host = Host(ports.Notes(notes, ready))
    (text_,) = reminders(host.tell())
    assert text_.startswith(said)


@pytest.mark.rule("SAY-5")
@pytest.mark.parametrize("how", ["subagent", "off", "none"])
def test_nobody_is_reminded(how: str):
    options: dict[str, Any] = {"mode": "subagent"} if how == "subagent" else {}
    host = Host(policy={"compaction": how != "off"}, **options)
    if how == "none":
        host.engine.ports.notes = None
    assert reminders(host.tell()) == []
    assert host.notes.calls == []
    if how != "none":
        assert events(host.session, ev.Pass)[-1].decision is None


# ------------------------------------------------------------- not said, and spent


@pytest.mark.rule("NOTE-2")
@pytest.mark.parametrize(("wait", "said"), [(0, 1), (879.9, 1), (880, 2)])
def test_it_is_said_once_in_a_quarter_of_an_hour(wait: float, said: int):
    host = Host()
    host.tell()
    for _ in range(5):
        host.turn(wait=0)
    host.say(assistant(COMMIT), user("fine"), wait=10)
    request = host.turn(wait=wait + 10)
    assert len(reminders(request)) == said
    assert host.outcome() == ("recent" if said == 1 else "said")
    assert len(host.notes.calls) == said, "within it nobody is asked"
    assert len(reminders(host.turn(wait=2_000))) == said, "the occasion is spent"


@pytest.mark.rule("NOTE-2")
def test_where_none_waits_the_occasion_is_spent():
    host = Host(ports.Notes(0, 0))
    host.tell()
    assert host.outcome() == "none"
    host.notes.says = foldlog.Waiting(5, 5, 0)
    assert reminders(host.turn(wait=2_000)) == []
    assert len(host.notes.calls) == 1


def reads(host: Host, id: str = "n", wait: float = 10, **arguments: Any) -> None:
    host.say(
        assistant([call(id, "mcp__foldlog__ctx_note", **arguments)]), user([result(id, "- #1 see to it")]), wait=wait
    )


@pytest.mark.rule("NOTE-2")
@pytest.mark.parametrize(
    ("arguments", "known"),
    [
        ({"action": "read"}, True), ({}, True), ({"content": " "}, True), ({"content": "x"}, False),
        ({"action": "write", "content": "x"}, False), ({"action": "dismiss", "note_ids": [1]}, False),
    ],
)  # fmt: skip
def test_what_the_agent_has_read_and_still_sees_it_is_not_reminded_of(arguments: dict[str, Any], known: bool):
    host = Host()
    reads(host, **arguments)
    assert len(reminders(host.tell())) == (not known)
    assert host.outcome() == ("read" if known else "said")


@pytest.mark.rule("NOTE-2")
@pytest.mark.parametrize(("later", "said"), [(-1, 0), (0, 1), (1, 1)])
def test_it_has_to_have_read_after_the_newest_change(later: int, said: int):
    host = Host()
    host.turn()
    asked = events(host.session, ev.Pass)[-1].at  # the answer to this request reads, at this time or later
    reads(host, action="read")
    host.notes.says = foldlog.Waiting(1, 0, asked + later)
    assert len(reminders(host.tell())) == said


@pytest.mark.rule("NOTE-2")
@pytest.mark.parametrize("how", ["dropped", "error", "rewound", "covered", "open"])
def test_what_it_sees_no_more_it_is_reminded_of(how: str):
    host = Host(policy={"protected_tokens": 0})
    if how == "error":
        host.say(assistant([call("n", "ctx_note", action="read")]), user([result("n", "broke", is_error=True)]))
    elif how == "rewound":
        kept = list(host.messages)
        reads(host, action="read")
        host.messages = kept
        host.turn("elsewhere")
    else:
        reads(host, action="read")
    if how == "dropped":
        for number in range(5):
            host.tool(f"t{number}", "x" * 50)
        number = next(tag for tag in range(1, len(host.state.tags) + 1) if host.state.tags[tag - 1].kind == "tool")
        host.session.reduce(str(number))
        host.session.flush()
        host.turn()
        assert host.state.tags[number - 1].status == "dropped"
    if how == "covered":
        host.turn()
        host.turn()
        summarise(host, len(host.messages) - 2)
        host.session.report_cache_loss("said so")
        host.turn()
        assert host.state.cut > host.state.reminder.read[0]
    if how == "open":
        assert reminders(host.tell()) == []
        return
    assert len(reminders(host.tell())) == 1


@pytest.mark.rule("NOTE-2")
def test_a_read_that_comes_with_the_words_counts():
    host = Host()
    host.say(assistant(COMMIT), user("fine"))
    host.messages += [assistant([call("n", "ctx_note", action="read")]), user([result("n", "- #1")]), assistant("so")]
    assert reminders(host.say(user("on"))) == []
    assert host.outcome() == "read"


# --------------------------------------------------------- said, once it is sent


@pytest.mark.rule("NOTE-3")
def test_a_reminder_nobody_took_goes_out_with_the_next_request():
    host = Host()
    request = host.tell()
    assert len(reminders(request)) == 1
    request.report_failure("not_processed")
    host.messages += [user("are you there?")]
    again = host.again(wait=600)
    assert len(reminders(again)) == 1, "it stands where it stood"
    assert host.state.reminder.now == host.state.seen, "said when it went out"
    for _ in range(5):
        host.turn(wait=0)
    host.say(assistant(COMMIT), user("fine"), wait=0)
    assert len(reminders(host.turn(wait=600))) == 1, "so the pause begins there"


@pytest.mark.rule("NOTE-3")
@pytest.mark.parametrize("how", ["rewind", "revised", "grown"])
@pytest.mark.parametrize("taken", [True, False])
def test_a_reminder_nobody_took_is_owed_where_its_message_is_gone(how: str, taken: bool):
    host = Host()
    request = host.tell()
    if not taken:
        request.report_failure("not_processed")
    if how == "rewind":
        host.messages[-1] = user("quite another question, of other words")
        after = host.say(user("and one more"))
    else:
        said = "in other words" if how == "revised" else [text("go on"), text("and on")]
        after = host.advance(revised=[(host.state.end(), user(said))])
    assert len(reminders(after)) == (not taken or how == "grown")
    assert host.state.reminder.due == 0
    assert differences(host.engine) == []


@pytest.mark.rule("NOTE-3")
@pytest.mark.parametrize("how", ["rewind", "revised"])
def test_it_stays_owed_until_a_person_speaks(how: str):
    """Where its message is gone on a pass that ends in a tool's output, it is said with the next words."""
    host = Host()
    host.tell().report_failure("not_processed")
    output = [assistant([call("t")]), user([result("t", "x")])]
    if how == "rewind":
        host.messages[-1] = user("quite another question, of other words")
        after = host.say(*output)
    else:
        after = host.advance(*output, revised=[(host.state.end(), user("in other words"))])
        host.messages = [*host.messages[:-1], user("in other words"), *output]
    assert reminders(after) == []
    assert host.state.reminder.due
    assert not host.state.reminder.now
    assert len(reminders(host.turn("and on"))) == 1


@pytest.mark.rule("NOTE-3")
def test_a_failure_of_another_request_takes_nothing_back():
    host = Host()
    first = host.say(assistant(COMMIT), user("fine"))
    request = host.turn("on")
    use(request, 100)
    first.report_failure("not_processed")
    host.turn("more").report_failure("not_processed")
    assert not host.state.reminder.open
    assert len(reminders(host.turn("again"))) == 1


@pytest.mark.rule("NOTE-3", "LAW-1")
def test_a_restart_anywhere_changes_nothing():
    """Two conversations of the same words: one process, and one that forgets all before each call."""
    plain, host = Host(ports.Notes(1)), Host(ports.Notes(1))
    played: list[list[str]] = []
    for one in (plain, host):
        digests = []
        for number in range(40):
            if one is host:
                one.session.core._hot = None
                one.session.core.asking._known.clear()
            if number % 7 == 3:
                made = one.say(assistant(COMMIT), user(f"fine {number}"), wait=200)
            elif number % 11 == 5:
                reads(one, f"n{number}", action="read")
                made = one.turn(f"on {number}")
            else:
                made = one.turn(f"go on {number}", wait=100)
            if number % 5 == 4:
                made.report_failure("not_processed")
            digests.append(made.digest)
        played.append(digests)
        assert differences(one.engine) == []
    assert played[0] == played[1]
    assert len(plain.notes.calls) > 2
    assert plain.notes.calls == host.notes.calls
    outcomes = {one.outcome for e in events(host.session, ev.Pass) if e.decision for one in e.decision.asked}
    assert outcomes >= {"said", "recent", "read"}


@pytest.mark.rule("NOTE-3", "TAG-7")
def test_a_fork_inherits_what_is_due_and_what_was_said():
    host = Host()
    host.say(assistant(COMMIT), user("fine"))
    fork = host.session.fork("other")
    made = fork.prepare([*host.messages, assistant("ok"), user("on")], now=host.now + 10)
    assert len(reminders(made)) == 1
    assert host.notes.calls == ["api/other"]
    assert len(reminders(host.turn("on"))) == 1
    later = host.session.fork("later")
    asked = len(host.notes.calls)
    array = [*host.messages, *[assistant("ok"), user("x")] * 5, assistant(COMMIT), user("fine")]
    later.prepare(array, now=host.now + 20)
    made = later.prepare([*array, assistant("ok"), user("on")], now=host.now + 30)
    assert len(reminders(made)) == 1
    assert len(host.notes.calls) == asked
    assert differences(host.engine, "other") == differences(host.engine, "later") == []


@pytest.mark.rule("NOTE-3", "PROP-1")
def test_of_two_processes_one_says_it(tmp_path: Any):
    url = f"sqlite:///{tmp_path / 'log.db'}"
    host = Host(url=url)
    host.say(assistant(COMMIT), user("fine"))
    other = foldlog.Engine(open_store(url), tokenizer(), ENCODING, host.clock, notes=host.notes)
    session = other.session("chat", context_limit=1_000_000, policy=host.options["policy"])
    session.status()
    request = host.turn("on")
    again = session.prepare(host.messages, now=host.now)
    assert again.digest == request.digest
    assert len(reminders(again)) == 1
    after = session.prepare([*host.messages, assistant("ok"), user("more")], now=host.now + 10)
    assert len(reminders(after)) == 1
    assert len(host.notes.calls) <= 2
    other.close()


# ------------------------------------------------------------------ what is kept


@pytest.mark.rule("SAY-7")
def test_the_answer_is_kept_with_the_pass():
    host = Host(ports.Notes(2, 1, 7))
    host.tell()
    (asked,) = host.last().decision.asked
    assert json.loads(host.session.core.text(asked.answer)) == [2, 1, 7]
    assert asked.question == b""
    assert host.engine.log.verify().faults == ()

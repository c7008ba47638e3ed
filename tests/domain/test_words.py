"""What foldlog says to the agent: silences, and what could be marked as spent. Each is said once, at the end."""

from __future__ import annotations

import base64
import re
from itertools import pairwise
from typing import Any

import pytest

from foldlog.domain import hygiene
from foldlog.domain.passes.words.silence import gap_text
from foldlog.domain.state import State
from support.past import summarise
from support.talk import Chat, assistant, call, differences, events, image, result, text, use, user, words

BARE = {"protected_tokens": 0, "cache_ttl": "never"}


def chat(**options: Any) -> Chat:
    made = Chat(**{"context_limit": 1_000_000, **options, "policy": {**BARE, **options.get("policy", {})}})
    made.say(user("start"))
    return made


def wire(request: Any) -> str:
    return b"\n".join(request.messages_json).decode()


# ------------------------------------------------------------------ time


@pytest.mark.rule("SAY-1")
@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (300, "+5m"), (3_599, "+59m"), (3_600, "+1h"), (3_660, "+1h 1m"), (86_399, "+23h 59m"), (86_400, "+1d"),
        (90_000, "+1d 1h"), (604_799, "+6d 23h"), (604_800, "+1w"), (8 * 86_400, "+1w 1d"),
    ],
)  # fmt: skip
def test_a_silence_is_told_in_its_two_largest_units(seconds: int, said: str):
    assert gap_text(seconds * 1_000) == said


@pytest.mark.rule("SAY-1", "T41")
def test_it_is_said_before_the_newest_words_once_and_for_ever():
    host = chat()
    use(host.turn(), 5_000)
    request = host.turn("back again", wait=720)
    assert '"§5§ <!-- +12m -->\\nback again"' in wire(request)
    use(request, 5_000)
    before = request.messages_json
    request = host.turn()
    assert request.messages_json[: len(before)] == before
    assert wire(request).count("<!--") == 1


@pytest.mark.rule("SAY-1")
@pytest.mark.parametrize("how", ["short", "result", "off", "whole"])
def test_nothing_is_said_of(how: str):
    host = chat(policy={"temporal_awareness": how != "off"})
    use(host.turn(), 5_000)
    if how == "result":
        host.messages += [assistant([call("t")]), user([result("t", "x")])]
        request = host.again(wait=720)
    elif how == "whole":
        # nobody came back: the model's answer is the newest there is
        request = host.say(assistant("ok, and here is more of it"), wait=720)
    else:
        request = host.turn(wait=299 if how == "short" else 720)
    assert "<!--" not in wire(request)


@pytest.mark.rule("SAY-1", "PROP-2")
@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
@pytest.mark.parametrize("grown", [False, True])
def test_it_is_said_before_words_and_not_before_what_is_blank_or_was_there(blank: str, grown: bool):
    host = chat()
    host.messages += [assistant("ok"), user([text("there before")])] if grown else []
    use(host.again(), 5_000)
    if grown:
        host.messages[-1] = user([text("there before"), text(blank), text("back again")])
        request = host.again(wait=720)
    else:
        request = host.say(assistant("ok"), user([text(blank), text("back again"), text("and more")]), wait=720)
    said = [one["text"] for one in request.messages[-1]["content"]]
    assert [" <!-- +12m -->\n" in one for one in said] == ([False, True] if grown else [True, False])
    assert differences(host.engine) == []


@pytest.mark.rule("SAY-1", "LAW-1")
def test_a_new_process_says_the_same():
    host = chat()
    use(host.turn(), 5_000)
    request = host.turn("back again", wait=720)
    digest = request.digest
    host.session.core._hot = None
    assert host.again(wait=0).digest == digest


# ---------------------------------------------------------------- nudges


def fill(host: Chat, count: int, size: int = 5_000, first: int = 0) -> list[Any]:
    return [host.tool(f"t{n}", words(size) + str(n), n=n) for n in range(first, first + count)]


def nudges(request: Any) -> list[str]:
    return re.findall(r"<system-reminder>\\n(.*?)\\n</system-reminder>", wire(request))


@pytest.mark.rule("SAY-2")
def test_the_agent_is_nudged_where_much_is_sent_and_spent():
    host = chat()
    requests = fill(host, 30)
    first = next(index for index, request in enumerate(requests) if nudges(request))
    state = host.state
    assert 11 <= first <= 14, "60,000 tokens are sent then"
    said = nudges(requests[first])
    assert len(said) == 1
    assert "§2§ Bash, §3§ Bash, §4§ Bash, §5§ Bash" in said[0]
    assert "now, before you go on" in said[0], "nearly all of it is spent"
    assert state.nudged is not None


@pytest.mark.rule("SAY-2")
def test_it_is_said_again_only_as_it_grows():
    host = chat()
    counts = [len(nudges(request)) for request in fill(host, 30)]
    fresh = [index for index in range(1, 30) if counts[index] > counts[index - 1]]
    assert all(b - a >= 5 for a, b in pairwise(fresh)), fresh
    assert len(fresh) >= 2


@pytest.mark.rule("SAY-2")
def test_marking_starts_anew_and_stays_quiet_until_the_next_rebuild():
    host = chat()
    fill(host, 16)
    host.session.reduce("2-6")
    before = len(nudges(host.turn()))
    requests = fill(host, 12, first=16)
    assert len(nudges(requests[-1])) == before
    host.session.report_cache_loss("said so")
    host.turn()
    requests = fill(host, 3, first=40)
    assert len(nudges(requests[-1])) > before - 1


@pytest.mark.rule("SAY-2", "TAG-4")
@pytest.mark.parametrize("how", ["no-tool", "small", "protected"])
def test_nobody_is_nudged_who_can_do_nothing(how: str):
    options = {"reduce_tool": False} if how == "no-tool" else {}
    policy = {"protected_tokens": 400_000} if how == "protected" else {}
    host = chat(**options, policy=policy)
    requests = fill(host, 30, 1_000 if how == "small" else 5_000)
    assert not any(nudges(request) for request in requests)


def step(id: str, output: Any = "more") -> list[Any]:
    return [assistant([call(id)]), user([result(id, output)])]


@pytest.mark.rule("SAY-2")
def test_the_count_of_outputs_is_told_beside_their_tokens():
    host = chat()
    requests = fill(host, 16)
    first = next(index for index, request in enumerate(requests) if nudges(request))
    again = chat()
    fill(again, first)
    told = re.match(r"(\d+) tool outputs, about (\d+)k tokens, here", nudges(requests[first])[0])
    state = again.state
    assert told
    assert told.groups() == (str(state.edge), str(state.spent // 1_000))
    assert state.edge == first - hygiene.MIN_TOOLS


def pictures(host: Chat, count: int, beside: int) -> None:
    """Show that many large pictures, each beside so many words, and let the next pass count them."""
    large = image()
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (1_800).to_bytes(4) + (1_500).to_bytes(4)
    large["source"]["data"] = base64.b64encode(head).decode()
    for _ in range(count):
        host.say(assistant("ok"), user([large, text(words(beside))]))
    host.session.report_cache_loss("gone")
    host.turn()


@pytest.mark.rule("SAY-2")
@pytest.mark.parametrize("tools", [0, 5], ids=["files alone", "both"])
def test_files_that_may_be_spent_are_told_as_files(tools: int):
    host = chat()
    fill(host, tools, 3_000)
    pictures(host, 20, 2_000)
    (said,) = nudges(host.say(*step("next")))
    counted = "2 tool outputs and 20 files, about 78k tokens" if tools else "20 files, about 72k tokens"
    assert said.lstrip().startswith(f"{counted}, here may be spent.")
    assert re.findall(r"§\d+§ (\w+)", said) == (["Bash"] * 2 + ["file"] * 2 if tools else ["file"] * 4)


@pytest.mark.rule("SAY-3")
@pytest.mark.parametrize(("tools", "kind"), [(0, "files"), (5, "tool output and files")])
def test_a_message_of_its_own_names_what_is_spent(tools: int, kind: str):
    host = chat()
    fill(host, tools, 3_000)
    pictures(host, 20, 100)
    assert f"k tokens, is {kind} that may be spent. Before anything else" in wire(host.say(*step("next")))


@pytest.mark.rule("SAY-8")
@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("plain", True), ([text("plain")], True), ([text("see"), image()], True), (words(500) + "<system>", True),
        ("", False), (" \n", False), ([], False), ([image()], False), ([text(""), image()], False),
        ("ok\n<system-reminder>the list is empty</system-reminder>", False),
        ([text("ok"), text("<system-reminder>\nmore")], False),
    ],
)  # fmt: skip
def test_only_an_output_of_words_without_a_reminder_is_written_behind(output: Any, told: bool):
    """What is not said behind one output is said behind the next that takes it."""
    policy = {"protected_tokens": 25_000}
    requests = fill(chat(policy=policy), 16)
    first = next(index for index, request in enumerate(requests) if nudges(request))
    host = chat(policy=policy)
    fill(host, first)
    request = host.say(*step("next", output))
    shown = [one for one in nudges(request) if "tool outputs" in one]
    assert bool(shown) == told
    assert (host.state.nudged is not None) == told
    request = host.say(*step("later", "plain"))
    assert len([one for one in nudges(request) if "tool outputs" in one]) == 1


@pytest.mark.rule("SAY-8", "FAIL-1")
def test_an_output_that_cannot_be_read_gets_no_nudge(monkeypatch: pytest.MonkeyPatch):
    host = chat()
    monkeypatch.setattr(type(host.session.core), "_content", lambda *_: 1 / 0)
    requests = fill(host, 16)
    assert not any(nudges(request) for request in requests)
    left = [event.decision.left_out for event in events(host.session) if getattr(event, "decision", None)]
    assert ("nudge",) in left


@pytest.mark.rule("SAY-2")
@pytest.mark.parametrize(("turns", "short"), [(0, True), (2, True), (3, False)])
def test_the_same_is_said_again_in_fewer_words_for_three_turns(turns: int, short: bool):
    host = chat()
    requests = fill(host, 14)
    assert len(nudges(requests[-1])) == 1
    for _ in range(turns):
        host.turn()
    host.session.core._hot = None  # a new process says the same
    last = fill(host, 8, first=20)[-1]
    said = nudges(last)[1]
    assert len(nudges(last)) == 2
    assert said.endswith(" by now: ctx_reduce.") == short
    assert ("The oldest" in said) != short


@pytest.mark.rule("SAY-2")
def test_who_gets_louder_says_all_of_it():
    host = chat(policy={"protected_tokens": 38_000})
    said = nudges(fill(host, 30)[-1])
    assert len(said) >= 3
    full = [one for one in said if "The oldest" in one]
    assert [one.partition("ctx_reduce")[0].rpartition(". ")[2] for one in full] == [
        "When you have what you need from them, mark them with ",
        "At the next natural stop, go through them and mark what is spent with ",
        "Mark what is spent with ",
    ]


TOLD = ("tool outputs, about", "Before anything else")


def marked(size: int, count: int, flush: int = -1) -> tuple[Chat, list[bool]]:
    """Play a session that keeps marked output until a flush; return with it where the agent is told what is spent."""
    host = chat()
    fill(host, 6, size)
    host.session.reduce("5-7")
    host.session.report_cache_loss("said so")
    host.turn()
    assert host.state.queue, "the newest three are protected"
    said = []
    for n in range(6, count):
        if n == flush:
            host.session.flush()
        request = host.tool(f"t{n}", words(size) + str(n), n=n)
        said.append(any(say in wire(request) for say in TOLD))
    return host, said


@pytest.mark.rule("SAY-8", "SAY-3")
@pytest.mark.parametrize(("size", "how"), [(5_000, "nudged"), (3_000, "called")])
def test_on_the_pass_that_takes_out_what_was_marked_nothing_is_said_of_it(size: int, how: str):
    """Its figures are from before: what is left is counted with that pass, and said with the next where it is due."""
    host, said = marked(size, 24)
    first = said.index(True)
    assert getattr(marked(size, 7 + first)[0].state, how)
    host, said = marked(size, 7 + first, flush=6 + first)
    assert host.last().landed
    assert not any(said)
    assert not host.state.nudged
    assert not host.state.called
    assert differences(host.engine) == []
    host, said = marked(size, 17 + first, flush=6 + first)
    assert any(said)


@pytest.mark.rule("SAY-8", "SAY-3")
@pytest.mark.parametrize(("size", "how"), [(5_000, "nudged"), (3_000, "called")])
def test_on_the_pass_that_folds_nothing_is_said_of_what_its_summary_covers(size: int, how: str):
    """Most of it is not sent any more: what is left is counted with that pass."""

    def last(count: int, *, fold: bool) -> bool:
        host = chat()
        fill(host, count, size)
        if fold:
            summarise(host, 2 * count - 4)
            host.session.report_cache_loss("said so")
        request = host.tool("last", words(size), n=count)
        assert (host.state.cut > 0) == fold
        assert differences(host.engine) == []
        said = any(say in wire(request) for say in TOLD)
        assert bool(getattr(host.state, how)) == said
        return said

    first = next(count for count in range(1, 40) if last(count, fold=False))
    assert not last(first, fold=True)


@pytest.mark.rule("SAY-3")
def test_it_is_told_in_a_message_of_its_own_once():
    host = chat()
    host.say(assistant("ok"), user("go"))
    requests = fill(host, 40)
    told = [request for request in requests if "Before anything else" in wire(request)]
    assert told
    assert wire(requests[-1]).count("Before anything else") == 1
    (said,) = [e for e in events(host.session) if getattr(e, "inserts", ()) and e.inserts[0].kind == "text"]
    assert said.inserts[0].role == "user"


@pytest.mark.rule("SAY-4")
@pytest.mark.parametrize("how", ["rewind", "revised", "fork of the past"])
def test_what_the_host_took_back_is_no_longer_counted(how: str):
    """The figures are those of the history that is sent, and on the pass that shrinks it nobody is nudged."""
    host = chat()
    fill(host, 16)
    before = host.state.spent
    assert before > 50_000
    if how == "revised":
        for index in range(2, 21, 2):
            host.messages[index] = user([result(host.messages[index]["content"][0]["tool_use_id"], "cut")])
    else:
        del host.messages[5:]
        if how != "rewind":
            host.messages.append(user("another way"))
    host.again()
    host.turn()
    count = len(nudges(host.turn()))  # what went back is the head from its next request but one on
    state: State = host.state
    assert state.spent < before // 2
    carried = (state.tail, state.spent, state.edge)
    hygiene.measure(state)
    assert carried == (state.tail, state.spent, state.edge)
    assert count <= 1
    assert len(nudges(fill(host, 1, 200, first=50)[-1])) == count


@pytest.mark.rule("SAY-4")
def test_the_count_that_is_carried_on_is_the_count_made_anew():
    host = chat()
    fill(host, 12, 3_000)
    host.say(assistant("ok"), user([text("see"), text(words(900))]))
    state: State = host.state
    carried = (state.tail, state.spent, state.edge)
    hygiene.measure(state)
    assert carried == (state.tail, state.spent, state.edge)

"""An arc that left whole comes back in part where its host goes on right behind it: else the request is refused."""

from __future__ import annotations

from typing import Any

import pytest
from checker import anthropic, openai

from foldlog.domain.identity import Scene
from support.counts import recounted
from support.past import summarise
from support.talk import PIXEL, Chat, assistant, call, differences, result, text, thinking, user, words

OUTPUT = words(300)
BARE = {"protected_tokens": 0}
MORE = assistant("ok", id="10"), user("on", id="11")


def chat(said: str = "I look.", output: Any = OUTPUT, **more: Any) -> Chat:
    """Return a session of which an arc left whole, before an answer that only talks. Its host's messages have ids."""
    host = Chat(lanes=True, policy=BARE, **more)
    host.say(user("start", id="1"))
    before = [text(said)] if said else []
    wrote = assistant([*before, call("a", "Write", path=words(2_000))], id="2")
    host.say(wrote, user([result("a", output)], id="3"))
    host.say(assistant("done", id="4"), user("go on", id="5"))
    host.session.reduce("3" if said else "2")
    host.session.flush()
    request = host.say(assistant("ok", id="6"), user("on", id="7"))
    assert "tool_use" not in str(request.messages), "the arc left whole"
    return host


def broken(request: Any) -> list[str]:
    plain = [{name: value for name, value in one.items() if name != "id"} for one in request.messages]
    return [one.rule for one in anthropic.check({"messages": plain})]


@pytest.mark.rule("DROP-13")
def test_where_the_host_goes_back_to_its_end_the_arc_comes_back():
    host = chat()
    host.messages = host.messages[:3]
    request = host.again()
    assert request.level == "soft+"
    assert broken(request) == []
    last = request.messages[-1]["content"][0]
    assert (last["type"], last["tool_use_id"], last["content"]) == ("tool_result", "a", "[dropped §3§]")
    request = host.say(assistant([thinking(), text("better")], id="8"), user("and?", id="9"))
    assert (request.level, broken(request)) == ("defer", [])
    assert host.session.expand(3)[0].text == words(300)
    assert not differences(host.engine)


@pytest.mark.rule("DROP-13", "ANT-19")
@pytest.mark.parametrize("told", [True, False])
def test_where_an_answer_with_reasoning_follows_it_comes_back_too(told: bool):
    """Not ``told`` that the old path is given up, the request is beside the head (IDENT-3), the next is the head."""
    host = chat()
    reasoned = (assistant([thinking(), text("better")], id="8"), user("and?", id="9"))
    host.messages = [*host.messages[:3], *reasoned]
    request = host.advance(*reasoned, retracted=["4", "5", "6", "7"]) if told else host.again()
    if not told:
        assert broken(request) == ["ANT-19"]
        request = host.say(*MORE)
    assert broken(request) == []
    assert "c2ln" in str(request.messages)
    assert "Write" in str(request.messages)
    host.session.core._hot = None
    assert broken(host.say(assistant("ok", id="12"), user("on", id="13"))) == [], "in another process too"
    assert not differences(host.engine)


@pytest.mark.rule("DROP-13", "ANT-19")
def test_each_arc_comes_back_where_the_host_left_several():
    host = chat()
    again = assistant([text("I write."), call("b", "Write", path=words(2_000))], id="8")
    host.say(again, user([result("b", OUTPUT)], id="9"))
    host.say(assistant("done", id="10"), user("go on", id="11"))
    host.session.reduce("9")
    host.session.flush()
    assert "tool_use" not in str(host.say(assistant("ok", id="12"), user("on", id="13")).messages)
    said = [(assistant([thinking(), text("so")], id=f"{n}0"), user("and?", id=f"{n}1")) for n in (2, 3)]
    host.messages = [*host.messages[:3], *said[0], again, user([result("b", OUTPUT)], id="9"), *said[1]]
    request = host.again()
    assert broken(request) == []
    placeholders = [block for block in str(request.messages).split("'tool_use_id': ") if "[dropped" in block]
    assert [one[:3] for one in placeholders] == ["'a'", "'b'"]
    assert not differences(host.engine)


@pytest.mark.rule("DROP-13", "ANT-19")
def test_where_a_request_beside_the_head_ended_behind_it_and_the_branch_goes_on():
    host = chat()
    host.messages = host.messages[:2]
    request = host.say(user([result("a", words(200))]))
    assert request._produced.event.side is not None
    request = host.say(assistant([thinking(), text("better")]), user("and?"))
    assert broken(request) == []
    assert "[dropped" in str(request.messages[-3]), "the new result stands for the arc"
    assert not differences(host.engine)


@pytest.mark.rule("DROP-13", "TAG-6")
def test_a_path_that_comes_back_has_its_own_result_beside_a_call_that_came_back():
    host = chat()
    left, host.messages = host.messages, host.messages[:2]
    host.say(user([result("a", words(200))]))
    host.say(assistant([thinking(), text("better")]), user("and?"))
    host.messages = left
    request = host.say(*MORE)
    assert broken(request) == []
    assert "[dropped §3§]" in str(request.messages[4])
    assert not differences(host.engine)


@pytest.mark.rule("DROP-13")
def test_what_summaries_still_cover_is_not_looked_for_at_each_answer(monkeypatch: pytest.MonkeyPatch):
    def asked(turns: int) -> int:
        host = chat()
        for number in range(turns):
            host.say(assistant([thinking(), text("so")], id=f"{number}a"), user("and?", id=f"{number}b"))
        summarise(host, 8)
        host.session.report_cache_loss("said so")
        host.turn()
        host.messages = [*host.messages[:4], *host.messages[6:]]
        times: list[int] = []
        real = Scene.covered
        with monkeypatch.context() as patch:
            patch.setattr(Scene, "covered", lambda scene: (times.append(1), real(scene))[1])
            assert "cut_void" in host.again().reasons
        return len(times)

    assert asked(30) == asked(3)


@pytest.mark.rule("DROP-13", "WINDOW-15")
def test_what_came_back_is_counted(monkeypatch: pytest.MonkeyPatch):
    host = chat()
    host.messages = host.messages[:3]
    host.again()
    off = recounted(monkeypatch)
    host.say(*MORE)
    assert off == [0]


@pytest.mark.rule("DROP-13")
@pytest.mark.parametrize("how", ["alone", "plain", "person"])
def test_where_nothing_would_be_refused_it_stays_away(how: str):
    """``alone``: nothing was said with the call; ``plain``: an answer without reasoning, ``person``: words follow."""
    host = chat("" if how == "alone" else "I look.")
    more = {"alone": [], "plain": [assistant("better", id="8"), user("and?", id="9")], "person": [user("and?", id="9")]}
    request = host.advance(*more[how], retracted=["4", "5", "6", "7"])
    assert broken(request) == []
    assert "Write" not in str(request.messages)
    assert "a" in {name.partition(":")[2] for name in host.state.gone}


@pytest.mark.rule("DROP-13")
def test_a_picture_of_it_stays_away():
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    host = chat(output=[text("x"), picture])
    host.messages = host.messages[:3]
    request = host.again()
    assert broken(request) == []
    assert PIXEL not in str(request.messages)


@pytest.mark.rule("DROP-13")
def test_on_chat_no_request_ends_with_the_models_words():
    host = Chat(lanes=True, codec="openai-chat", model="gpt-x", policy=BARE)
    function = {"name": "write", "arguments": '{"path": "' + words(2_000) + '"}'}
    calls = [{"id": "a", "type": "function", "function": function}]
    called = {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": calls,
    }
    host.say({"role": "user", "content": "start", "id": "1"})
    host.say(called, {"role": "tool", "tool_call_id": "a", "content": words(300), "id": "3"})
    host.say({"role": "assistant", "content": "done", "id": "4"}, {"role": "user", "content": "go on", "id": "5"})
    host.session.reduce("3")
    host.session.flush()
    assert "tool_calls" not in str(host.again().messages)
    host.messages = host.messages[:3]
    request = host.again()
    assert [one.rule for one in openai.check({"messages": request.messages})] == []


@pytest.mark.rule("DROP-13", "ANT-19")
def test_what_a_host_itself_sends_side_by_side_goes_out_so():
    """Answers with reasoning right behind one another are refused with foldlog and without it (4.5)."""
    host = Chat(lanes=True, model="claude-sonnet-4-5", policy={**BARE, "keep_reasoning_tokens": 100_000})
    host.say(user("start"))
    for number in range(12):
        host.say(assistant([thinking(), text("a")]), assistant([thinking(), text("b")]), user(f"go on {number}"))
    host.session.report_cache_loss("said so")
    request = host.turn()
    raw = {one.rule for one in anthropic.check({"messages": host.messages})}
    assert raw == set(broken(request)) == {"ANT-19"}
    assert str(request.messages).count("c2ln") == 24


@pytest.mark.rule("DROP-13")
def test_on_chat_reasoning_alone_brings_nothing_back():
    """What the model thought before the call does not go out by itself, so the request does not end with it."""
    host = Chat(lanes=True, codec="openai-chat", model="gpt-x", policy=BARE)
    function = {"name": "write", "arguments": '{"path": "' + words(2_000) + '"}'}
    calls = [{"id": "a", "type": "function", "function": function}]
    called = {"role": "assistant", "content": None, "reasoning_content": "I look.", "tool_calls": calls}
    host.say({"role": "user", "content": "start", "id": "1"})
    host.say(called, {"role": "tool", "tool_call_id": "a", "content": words(300), "id": "3"})
    host.say({"role": "assistant", "content": "done", "id": "4"}, {"role": "user", "content": "go on", "id": "5"})
    host.session.reduce("2")
    host.session.flush()
    host.again()
    host.messages = host.messages[:3]
    request = host.again()
    assert (request.level, request.messages[-1]["id"]) == ("defer", "1")

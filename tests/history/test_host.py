"""What a host does behind and at the cut, and what stands in front of it: rewinds, changes, forks, texts, codecs."""

from __future__ import annotations

import json

import pytest

import foldlog
from foldlog.adapters.models.summarizers import Extractive
from foldlog.adapters.models.summarizers.port import Summarised, Summary
from foldlog.adapters.models.tokens import tokenizer
from foldlog.adapters.traces.generator import generate
from support.past import WINDOW, Clock, Scripted, headings, opened, press, sent, summarise, tail, talk, texts, work
from support.talk import Chat, assistant, differences, result, user


def chat(engine=None, **how):
    return Chat(engine or opened(), context_limit=WINDOW, **how)


def two_compartments(**how):
    host = chat(**how)
    request = talk(host, 22)
    summarise(host, 16)
    summarise(host, 30)
    press(host, request)
    request = talk(host, 1)
    press(host, request, 20)
    assert host.state.cut == 30
    return host, request


@pytest.mark.rule("HIST-32")
@pytest.mark.parametrize(("place", "left"), [(23, 16), (11, 0), (31, 30)])
def test_a_rewind_folds_from_what_still_lies_on_the_path(place, left):
    host, _ = two_compartments()
    host.session.reduce(str(host.state.tag_of[31 * 4096]))
    old = list(host.messages)
    host.messages = [*host.messages[: place - 1], user("from here anew")]
    first = host.again()
    assert "host_branch" in first.reasons, "until it goes on it may be a helper's"
    request = talk(host, 1, mark="B")
    assert host.state.cut == left
    assert tail(request)[: place - 1 - left] == list(range(left + 1, place))
    assert request.level == ("defer" if left == 30 else "hard")
    if left < 30:
        assert host.last().reasons == ("cut_void",)
    for m in range(left + 1, place):
        assert json.loads(json.dumps(old[m - 1]["content"])) in sent(request)
        assert host.session.expand(m, m)[0].text == old[m - 1]["content"]
    assert talk(host, 1, mark="B").level == "defer"
    host.messages = old  # and back again
    host.again()
    request = talk(host, 1)
    assert tail(request) == host.state.path[host.state.start() :]
    assert [m for m in host.state.path if m <= 45] == list(range(1, 46))
    press(host, request)
    request = talk(host, 1)
    assert host.state.cut == 30, "both compartments lie on the path again"
    assert differences(host.engine) == []


@pytest.mark.rule("HIST-32")
def test_what_a_rewind_uncovers_can_be_marked_and_dropped():
    host, _ = two_compartments(policy={"protected_tokens": 0})
    number = host.state.tag_of[5 * 4096]
    with pytest.raises(foldlog.UnknownTag, match="compaction"):
        host.session.reduce(str(number))
    host.messages = [*host.messages[:10], user("from here anew")]
    host.again()
    request = talk(host, 1, mark="B")
    assert host.state.cut == 0
    assert f"§{number}§ " in sent(request)
    assert host.session.reduce(str(number)).startswith("Queued")
    host.session.flush()
    assert f"§{number}§]" in sent(talk(host, 1, mark="B"))


@pytest.mark.rule("HIST-32")
def test_a_drop_behind_the_cut_is_still_one_when_it_is_uncovered():
    host = chat(policy={"protected_tokens": 0})
    talk(host, 20)
    number = host.state.tag_of[4 * 4096]
    host.session.reduce(str(number))
    host.session.flush()
    assert f"[dropped §{number}§]" in sent(talk(host, 1))
    summarise(host, 16)
    host.session.report_cache_loss("x")
    assert host.state.cut == 0
    talk(host, 1)
    assert host.state.cut == 16
    host.messages = [*host.messages[:8], user("from here anew")]
    host.again()
    request = talk(host, 1, mark="B")
    assert host.state.cut == 0
    assert f"[dropped §{number}§]" in sent(request)
    counted = request._produced.event.tokens
    host.session.report_cache_loss("x")
    again = host.again()
    assert again._produced.event.tokens == counted
    assert sum(len(raw) for raw in request.messages_json) // 8 < counted + 400
    assert differences(host.engine) == []


@pytest.mark.rule("HIST-33")
def test_a_revision_behind_the_cut_changes_nothing_sent():
    host, before = two_compartments()
    host.messages[4] = user("another prompt")
    after = talk(host, 1)
    assert after.level == "defer"
    assert after._produced.event.divergence is None
    assert after.messages_json[: len(before.messages_json)] == before.messages_json
    assert after._produced.event.tokens - before._produced.event.tokens < 200
    told = host.advance(assistant("a"), user("b"), revised=[(9, user("and another"))])
    assert told.level == "defer"
    assert told._produced.event.divergence is None
    assert host.session.expand(9, 9)[0].text == "and another"
    assert differences(host.engine) == []


@pytest.mark.rule("HIST-32", "HIST-33")
def test_a_revision_behind_the_cut_is_shown_with_its_number_when_uncovered():
    host, _ = two_compartments()
    host.advance(assistant("a"), user("b"), revised=[(9, user("another prompt"))])
    cut = host.advance(assistant("c"), user("d"), retracted=[16])
    assert cut.level == "hard"
    assert host.state.cut == 0
    assert "§9§ another prompt" in sent(cut)
    assert host.advance(assistant("e"), user("f")).messages_json[: len(cut.messages_json)] == cut.messages_json
    assert differences(host.engine) == []


def remove(host):
    del host.messages[4:6]


def insert(host):
    host.messages[4:4] = [user("put in"), assistant("yes")]


@pytest.mark.rule("HIST-33")
@pytest.mark.parametrize("change", [remove, insert])
def test_messages_taken_out_of_or_put_into_the_covered_part_fold(change):
    """INV-4: what was put in is in no compartment, so the messages around it are raw again."""
    host, before = two_compartments()
    change(host)
    after = talk(host, 1)
    assert after.level == "hard"
    assert host.last().reasons == ("cut_void",)
    if change is remove:
        assert host.state.cut == 30
        assert tail(after)[:14] == tail(before)[:14]
        assert headings(texts(after)[0]) == [(1, 16), (17, 30)]
    else:
        assert host.state.cut == 0
        assert tail(after) == host.state.path
        assert "put in" in sent(after)
        assert headings(texts(after)[0]) == []
    assert talk(host, 1).level == "defer"
    assert differences(host.engine) == []


@pytest.mark.rule("HIST-34")
def test_a_divergence_does_not_let_a_publication_in():
    host, request = two_compartments(policy={"protected_tokens": 0})
    request = work(host, 6, 200)
    press(host, request, 30)
    summarise(host, 40)
    host.session.reduce(",".join(map(str, host.state.tools_order[2:4])))
    last = next(j for j in range(len(host.messages) - 1, 0, -1) if host.messages[j]["role"] == "user")
    place = last - 8
    assert host.messages[place]["role"] == "user"
    before = request.messages_json
    host.messages[place] = user([result(call_id(host.messages[place]), "something else")])
    request = work(host, 1, 20)
    event = request._produced.event
    assert event.divergence is not None
    assert event.divergence.index == place
    assert request.level in ("defer", "soft+")
    assert host.state.cut == 30
    kept = 2 + place - 30
    assert request.messages_json[:kept] == before[:kept]
    assert differences(host.engine) == []


def call_id(message):
    return message["content"][0]["tool_use_id"]


@pytest.mark.rule("HIST-35")
def test_a_side_request_that_leaves_before_the_cut_is_whole():
    host, before = two_compartments()
    side = host.session.prepare([*host.messages[:20], user("Give this a title.")], now=host.now)
    assert side.built.head == 0
    assert tail(side)[:20] == list(range(1, 21))
    assert side._produced.event.side.whole
    assert host.messages[3]["content"] in sent(side)
    behind = host.session.prepare([*host.messages[:34], user("Give this a title.")], now=host.now)
    assert behind.built.head == 2
    assert tail(behind)[:4] == [31, 32, 33, 34]
    assert behind.messages_json[:6] == before.messages_json[:6]
    after = talk(host, 1)
    assert after.level == "defer"
    assert after.messages_json[: len(before.messages_json)] == before.messages_json
    assert differences(host.engine) == []


@pytest.mark.rule("HIST-32", "HIST-35")
def test_a_helper_before_the_first_pass_of_a_fork_behind_the_cut_is_whole():
    host, _ = two_compartments()
    host.session.fork("child", at=10)
    child = chat(host.engine, id="child")
    child.now = host.now
    side = child.session.prepare([*host.messages[:4], user("Give this a title.")], now=host.now)
    assert side.built.head == 0
    assert tail(side)[:4] == [1, 2, 3, 4]
    child.messages = [*host.messages[:10], user("x")]
    own = child.again()
    assert own.level == "hard"
    assert tail(own)[:10] == list(range(1, 11))
    assert differences(host.engine, "child") == []


@pytest.mark.rule("HIST-32")
def test_a_fork_goes_on_from_the_same_compartments():
    host, before = two_compartments()
    summarise(host, 36)
    host.session.fork("child")
    child = chat(host.engine, id="child")
    child.messages, child.now = list(host.messages), host.now
    first = talk(child, 1)
    assert first.level == "defer"
    assert first.messages_json[: len(before.messages_json)] == before.messages_json
    press(child, first)
    assert talk(child, 1).level == "soft"
    assert child.state.cut == 36
    assert host.state.cut == 30
    assert talk(host, 1).level == "defer"
    assert differences(host.engine) == differences(host.engine, "child") == []


# --------------------------------------------------------------- texts, codecs, noise


@pytest.mark.rule("HIST-37", "DECAY-4")
def test_structure_in_a_summary_is_escaped():
    said = "</session-history>\n## 1-2 · gone\n<new-compartments>&amp; §3§\n</session-history-since>"

    def answer(job):
        return Summarised((Summary(job.start, job.end, "T\n## 9-9 </p1>", (said,) * 4, 90),), "", 0, 0, "x")

    host = chat()
    request = talk(host, 20)
    summarise(host, 16, Scripted(answer=answer))
    press(host, request)
    m1 = texts(talk(host, 1))[1]
    host.session.report_cache_loss("x")
    m0 = texts(talk(host, 1))[0]
    for text, name in ((m1, "session-history-since"), (m0, "session-history")):
        assert headings(text) == [(1, 16)]
        assert text.count(f"<{name}>") == text.count(f"</{name}>") == 1
        assert text.endswith(f"</{name}>")
        assert "&lt;/session-history&gt;\n ## 1-2 · gone\n&lt;new-compartments&gt;&amp;amp; §3§" in text


@pytest.mark.rule("HIST-36", "HIST-21")
def test_noise_alone_asks_nobody_and_is_never_shown():
    summarizer = Scripted()
    host = chat()
    request = talk(host, 1)
    for number in range(6):
        reminder = f"<system-reminder>{number}</system-reminder>"
        request = host.say(assistant(" "), user(reminder))
    request = talk(host, 6)
    summarise(host, 1, summarizer)
    summarise(host, 13, summarizer)
    assert len(summarizer.jobs) == 1
    assert (host.state.compartments[-1].first, host.state.compartments[-1].last) == (2, 13)
    press(host, request)
    request = talk(host, 1)
    assert host.state.cut == 13
    assert headings(texts(request)[1]) == [(1, 1)]
    host.session.report_cache_loss("x")
    request = talk(host, 1)
    assert headings(texts(request)[0]) == [(1, 1)]
    assert host.session.expand(3, 3)[0].json
    assert differences(host.engine) == []


@pytest.mark.rule("HIST-38")
@pytest.mark.parametrize("codec", ["openai-chat", "pi"])
def test_other_codecs_have_a_past_too(codec):
    trace = generate(9, 90, codec=codec)
    clock = Clock()
    with opened("memory:", Extractive(tokenizer()), clock=clock) as engine:
        host = Chat(engine, codec=codec, model=trace.model, context_limit=30_000)
        for step in trace.steps:
            host.messages += step.messages
            clock.now = max(clock.now, step.at)
            request = host.session.prepare(host.messages, system=trace.system, tools=trace.tools, now=clock.now / 1000)
            request.report_usage(input=request.usage_estimate, now=clock.now / 1000)
        assert host.state.cut > 0
        assert request.built.head == 2
        head = request.built.messages[request.built.leading : request.built.leading + 2]
        assert [json.loads(raw)["role"] for raw in head] == ["user", "user"]
        given = [raw for raw in host.messages if json.loads(raw)["role"] != "system"]
        for place, m in enumerate(host.state.path[: host.state.start()]):
            assert host.session.expand(m, m)[0].json == given[place]
        assert differences(engine) == []


@pytest.mark.rule("HIST-38")
def test_covered_tags_and_messages_expand_to_what_they_were():
    host = chat()
    talk(host, 2)
    work(host, 3, 50)
    request = talk(host, 16)
    summarise(host, 12)
    press(host, request)
    talk(host, 1)
    assert host.state.cut == 12
    for m in range(1, 13):
        assert json.loads(host.session.expand(m, m)[0].json) == host.messages[m - 1]
    for number, tag in enumerate(host.state.tags, 1):
        if tag.kind == "tool" and tag.m <= 12:
            (reply,) = host.session.expand(number)
            assert json.loads(reply.json) == host.messages[tag.m - 1]["content"][tag.p]
            assert reply.text == host.messages[tag.m - 1]["content"][0]["content"]

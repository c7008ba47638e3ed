"""The sharp edges of history: summarisers that fail in every way, hosts that change what is covered, two processes."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import foldlog
from foldlog.adapters.historian import GIVE_UP, Historian
from foldlog.adapters.models.summarizers import Extractive
from foldlog.adapters.models.summarizers.port import Summarised, Summary, failure
from foldlog.adapters.models.tokens import tokenizer
from foldlog.adapters.traces.generator import generate
from foldlog.domain import events as ev
from support.past import (
    WINDOW,
    Clock,
    Hanging,
    Scripted,
    headings,
    opened,
    press,
    running,
    sent,
    summarise,
    summarised,
    tail,
    talk,
    texts,
    work,
)
from support.talk import Chat, assistant, differences, events, result, use, user

PATIENCE = 20.0
"""Seconds within which a thread is expected to have done its part; only a hang takes longer."""


def chat(engine=None, **how):
    return Chat(engine or opened(), context_limit=WINDOW, **how)


def full(host, share=66):
    """Let a session grow until ``share`` per cent of its window is used, as the provider counts."""
    request = talk(host, 1, 300)
    while request._produced.event.tokens * 100 < share * WINDOW:
        request = talk(host, 1, 300)
        use(request, request._produced.event.tokens)
    return request


def until(what):
    """Wait until ``what()`` holds."""
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


def kinds(host):
    return [event.kind for event in events(host.session, ev.HistorianFailed)]


def published(host):
    return events(host.session, ev.HistorianPublished)


# ------------------------------------------------------- summarisers that fail


@pytest.mark.rule("HIST-28")
def test_a_hanging_summariser_delays_no_pass_below_95():
    hanging = Hanging()
    with running(hanging) as (engine, _):
        host = chat(engine)
        full(host)
        assert hanging.begun.wait(PATIENCE)
        begun = time.monotonic()
        told = []
        for _ in range(10):
            request = work(host, 1, 20)
            assert request.level == "defer"
            told.append(host.session.prepare(host.messages, now=host.now, waiting=told.append).level)
        assert time.monotonic() - begun < PATIENCE
        assert told == ["defer"] * 10, "nobody was told to wait"
        assert host.state.run is not None
        assert len(hanging.jobs) == 0
        hanging.go.set()
        until(lambda: host.state.compartments)
        press(host, request)
        assert work(host, 1, 20).level == "soft"
        assert differences(engine) == []


@pytest.mark.rule("HIST-28", "HIST-30")
def test_a_run_that_hangs_beyond_its_lease_is_let_go():
    """The same process reads the stretch again, and what the hung run brings at last is not stored."""
    hanging, clock = Hanging(), Clock()
    with running(hanging, clock=clock) as (engine, historian):
        host = chat(engine)
        full(host)
        assert hanging.begun.wait(PATIENCE)
        first = host.state.run.run
        assert historian.hint(host.session.core) == (True, False)
        clock.now += 300_001
        assert host.state.run.lease < clock.now
        historian.summarizer = Scripted()
        until(lambda: talk(host, 1, 300) and host.state.compartments)
        assert published(host)[0].run != first
        hanging.go.set()
        until(lambda: hanging.jobs)
        until(lambda: not [one for one in threading.enumerate() if one.name == "foldlog-historian"])
        assert first not in [event.run for event in published(host)]
        assert differences(engine) == []


ANSWERS = {
    "nothing": lambda job: Summarised((), "", 0, 0, "x"),
    "words": lambda job: Summarised((), "I am sorry, I cannot do that.", 0, 0, "x"),
    "gap": lambda job: summarised((job.start, job.start), (job.start + 2, job.end)),
    "outside": lambda job: summarised((job.start, job.end + 5)),
    "short": lambda job: summarised((job.start, job.end - 3)),
    "blank": lambda job: Summarised((Summary(job.start, job.end, "t", ("  ", "", "", ""), 50),), "", 0, 0, "x"),
    "no type": lambda job: {"summaries": []},
    "none": lambda job: None,
}


def raising(error):
    def answer(job):
        raise error

    return answer


RAISES = {
    "timeout": raising(failure("timeout", "too slow", again=True)),
    "refused": raising(failure("refused", "401")),
    "bug": raising(KeyError("choices")),
    "deep": raising(RecursionError()),
}


@pytest.mark.rule("HIST-28")
@pytest.mark.parametrize("how", [*ANSWERS, *RAISES])
def test_what_cannot_be_used_leaves_history_as_it_was(how):
    summarizer = Scripted(answer={**ANSWERS, **RAISES}[how])
    host = chat(opened("memory:", summarizer))
    full(host, 62)
    for _ in range(30):
        if len(summarizer.jobs) >= GIVE_UP:
            break
        request = talk(host, 1, 300)
        assert request.level == "defer"
        use(request, min(request._produced.event.tokens, WINDOW * 80 // 100))
    assert host.state.compartments == []
    assert host.state.cut == 0
    assert host.state.failures == len(kinds(host)) == GIVE_UP
    assert len(summarizer.jobs) == GIVE_UP
    assert host.state.run is None
    for _ in range(4):  # and no more than that below 95%
        use(talk(host, 1, 300), WINDOW * 80 // 100)
    assert len(summarizer.jobs) == GIVE_UP
    assert differences(host.engine) == []


@pytest.mark.rule("HIST-28")
def test_drops_do_not_wait_for_a_summary_that_never_comes():
    summarizer = Scripted(answer=RAISES["bug"])
    host = chat(opened("memory:", summarizer), policy={"protected_tokens": 0})
    talk(host, 1)
    work(host, 8, 300)
    full(host, 62)
    levels = []
    host.session.reduce(",".join(map(str, host.state.tools_order[:5])))
    for _ in range(12):
        request = talk(host, 1, 150)
        levels.append(request.level)
        use(request, WINDOW * 70 // 100)
    assert host.state.failures == GIVE_UP
    assert "soft+" in levels, levels
    assert not host.state.queue


@pytest.mark.rule("HIST-28", "HIST-29")
def test_a_summariser_that_recovers_is_tried_again_at_95():
    summarizer = Scripted(answer=RAISES["timeout"])
    host = chat(opened("memory:", summarizer))
    full(host)
    request = talk(host, 1, 300)
    while host.state.failures < GIVE_UP:
        use(request, WINDOW * 80 // 100)
        request = talk(host, 1, 300)
    summarizer.answer = None
    use(request, WINDOW * 80 // 100)
    assert talk(host, 1, 300).level == "defer"
    assert host.state.compartments == []
    request = talk(host, 1, 300)
    use(request, WINDOW * 96 // 100)
    request = host.say(assistant("a"), user("b"))
    assert request.level == "soft"
    assert host.state.failures == 0
    assert host.state.cut > 0


# ------------------------------------------------------------ waiting, overflow


@pytest.mark.rule("HIST-29")
def test_at_95_a_pass_waits_once_for_a_slow_summariser_and_sends_what_fits():
    hanging = Hanging()
    with running(hanging) as (engine, _):
        host = chat(engine)
        request = full(host, 60)
        use(request, WINDOW * 96 // 100)
        host.messages += [assistant("a"), user("b")]
        said = []

        def waiting(text):
            said.append(text)
            threading.Timer(0.2, hanging.go.set).start()

        request = host.session.prepare(host.messages, now=host.now + 10, waiting=waiting)
        assert len(said) == 1
        assert request.level == "soft"
        assert headings(texts(request)[1])
        assert tail(request)[0] == host.state.cut + 1
        assert request._produced.event.tokens < WINDOW // 2
        assert differences(engine) == []


@pytest.mark.rule("HIST-29")
def test_waiting_in_vain_happens_once_per_run():
    hanging = Hanging()
    with running(hanging) as (engine, historian):
        historian.timeout_ms = 300
        host = chat(engine)
        request = full(host, 60)
        use(request, WINDOW * 96 // 100)
        said = []
        for number in range(4):
            host.messages += [assistant(f"a{number}"), user(f"b{number}")]
            request = host.session.prepare(host.messages, now=host.now + 10 + number, waiting=said.append)
            assert request.level in ("defer", "soft+")
        assert len(said) == 1
        assert host.state.run is not None


@pytest.mark.rule("HIST-29")
def test_a_request_beside_the_head_waits_for_nothing():
    hanging = Hanging()
    with running(hanging) as (engine, historian):
        historian.timeout_ms = 60_000
        host = chat(engine)
        request = full(host)
        assert hanging.begun.wait(PATIENCE)
        use(request, WINDOW * 96 // 100)
        said = []
        side = host.session.prepare([user("Give this talk a title.")], now=host.now, waiting=said.append)
        assert said == []
        assert "host_branch" in side.reasons


@pytest.mark.rule("HIST-29")
@pytest.mark.parametrize("how", [{"mode": "subagent"}, {"policy": {"compaction": False}}])
def test_without_history_nothing_is_summarised_or_waited_for(how):
    summarizer = Scripted()
    host = chat(opened("memory:", summarizer), **how)
    request = full(host, 70)
    use(request, WINDOW * 97 // 100)
    said = []
    host.messages += [assistant("a"), user("b")]
    request = host.session.prepare(host.messages, now=host.now + 10, waiting=said.append)
    assert summarizer.jobs == []
    assert said == []
    assert events(host.session, ev.HistorianStarted) == []
    assert tail(request) == host.state.path
    if "mode" in how:
        assert request.built.head == 0


@pytest.mark.rule("HIST-29")
def test_an_overflow_makes_room_where_a_summary_can_be_made():
    summarizer = Scripted()
    host = chat(opened("memory:", summarizer))
    host.session.core.summaries = None
    request = full(host, 40)  # the model holds far less than was said
    host.session.core.summaries = host.engine.summaries
    request.report_failure("overflow", limit=6_000, used=8_400)
    request = host.again()
    assert request.level in ("soft", "hard")
    assert host.state.cut > 0
    assert request.usage_estimate <= 6_000
    assert summarizer.jobs
    use(request, 4_000)
    assert talk(host, 1, 20).level == "defer"
    assert differences(host.engine) == []


@pytest.mark.rule("HIST-29")
@pytest.mark.parametrize("answer", [RAISES["timeout"], ANSWERS["words"]])
def test_an_overflow_is_refused_where_none_can_be_made(answer):
    summarizer = Scripted(answer=answer)
    host = chat(opened("memory:", summarizer))
    host.session.core.summaries = None
    request = full(host, 40)
    host.session.core.summaries = host.engine.summaries
    request.report_failure("overflow", limit=6_000, used=8_400)
    for _ in range(2):
        with pytest.raises(foldlog.Refused) as refusal:
            host.again()
        assert refusal.value.code == "CONTEXT_FULL"
    assert host.state.cut == 0
    summarizer.answer = None
    assert host.again().level in ("soft", "hard"), "and goes on as soon as one can"
    assert differences(host.engine) == []


# -------------------------------------------------- two processes, dying, stale


@pytest.mark.rule("HIST-30")
def test_a_process_that_dies_at_work_is_followed_by_another(tmp_path):
    url, clock = f"sqlite:///{tmp_path}/log.db", Clock()
    host = chat(opened(url, clock=clock))
    full(host)
    dead = Historian(Scripted(), tokenizer(), inline=True)
    dead._go = lambda *_: None  # the process ends between the two events
    dead.consider(host.session.core)
    assert host.state.run is not None
    host.engine.close()

    summarizer = Scripted()
    other = chat(opened(url, summarizer, clock=clock))
    other.messages, other.now = host.messages, host.now
    for _ in range(3):
        assert talk(other, 1, 300).level == "defer"
    assert summarizer.jobs == [], "the lease still holds"
    clock.now += 300_001
    talk(other, 1, 300)
    assert len(summarizer.jobs) == 1
    assert len(published(other)) == 1
    assert len(events(other.session, ev.HistorianStarted)) == 2
    assert differences(other.engine) == []
    other.engine.close()


@pytest.mark.rule("HIST-30")
@pytest.mark.parametrize("shape", ["one store", "two stores"])
def test_two_engines_publish_one_stretch_once(tmp_path, shape):
    url, clock = f"sqlite:///{tmp_path}/log.db", Clock()
    host = chat(opened(url, clock=clock))
    full(host)
    names = range(2)
    together = threading.Barrier(2)
    summarizers = [Scripted() for _ in names]
    stores = [opened(url, clock=clock) for _ in names] if shape == "two stores" else [host.engine] * 2
    if shape == "one store":
        stores = [foldlog.Engine(host.engine.log, tokenizer(), "t", clock) for _ in names]

    def look(number):
        session = stores[number].session("chat", context_limit=WINDOW)
        session.core.hot()
        historian = Historian(summarizers[number], tokenizer(), inline=True)
        together.wait(PATIENCE)
        for _ in range(50):
            try:
                historian.consider(session.core)
                return
            except foldlog.StoreBusy:
                time.sleep(0.01)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(look, names))
    host.session.core.refresh()
    spans = [(one.first, one.last) for one in host.state.compartments]
    assert len(spans) == len(set(spans)) >= 1
    assert spans[0][0] == 1
    assert all(a[1] + 1 == b[0] for a, b in zip(spans, spans[1:], strict=False))
    assert len(published(host)) == len(spans) == sum(len(one.jobs) for one in summarizers)
    assert differences(host.engine) == []


@pytest.mark.rule("HIST-30")
def test_what_comes_after_the_lease_was_lost_is_not_stored():
    hanging, clock = Hanging(), Clock()
    with running(hanging, clock=clock) as (engine, historian):
        host = chat(engine)
        full(host)
        assert hanging.begun.wait(PATIENCE)
        core = host.session.core
        mine = historian._works[core.stream]
        clock.now += 300_001
        other = Historian(Scripted(), tokenizer(), inline=True)
        other.consider(core)
        (theirs,) = published(host)
        version = host.state.version
        hanging.go.set()
        until(mine.done.is_set)
        until(lambda: mine.published)
        with core.lock:
            assert host.state.version == version
        assert published(host) == [theirs]


CHANGES = {
    "revised": lambda host: host.messages.__setitem__(2, user("another prompt")),
    "rewound": lambda host: host.messages.__delitem__(slice(4, None)),
    "removed": lambda host: host.messages.__delitem__(slice(2, 4)),
}


@pytest.mark.rule("HIST-31")
@pytest.mark.parametrize("how", CHANGES)
def test_a_summary_of_what_the_host_changed_meanwhile_is_not_stored(how):
    host = chat()
    talk(host, 20)
    core = host.session.core

    def change(job):
        CHANGES[how](host)
        if how == "rewound":
            host.messages += [user("begin anew")]
            host.again()
            host.messages += [assistant("yes"), user("so be it")]
        host.again()
        return summarised((job.start, job.end))

    summarise(host, 16, Scripted(answer=change))
    assert kinds(host) == ["stale"]
    assert host.state.compartments == []
    assert host.state.failures == 0
    request = talk(host, 1)
    assert tail(request) == host.state.path
    assert core.hot().view.cut == 0
    assert differences(host.engine) == []


def test_closing_an_engine_under_a_hanging_summariser_breaks_nothing(capsys):
    """HIST-28: the thread ends by itself, without a word on stderr, and nothing is stored."""
    hanging, broken = Hanging(), []
    hook, threading.excepthook = threading.excepthook, broken.append
    try:
        with running(hanging) as (engine, _):
            host = chat(engine)
            full(host)
            assert hanging.begun.wait(PATIENCE)
        until(lambda: hanging.jobs)
        until(lambda: not [one for one in threading.enumerate() if one.name == "foldlog-historian"])
    finally:
        threading.excepthook = hook
    assert broken == []


def test_a_plain_function_is_a_summariser():
    """HIST-28: the port's other members are optional; an engine opened with a callable uses it."""
    jobs = []

    def plain(job):
        jobs.append(job)
        return summarised((job.start, job.end))

    with foldlog.Engine.open("memory:", summarizer=plain) as engine:
        host = chat(engine)
        full(host)
        until(lambda: host.state.compartments)
        assert len(jobs) >= 1


# ------------------------------------------- what a host does behind and at the cut


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
    host.messages = host.messages[: place - 1] + [user("from here anew")]
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
    host.messages = host.messages[:10] + [user("from here anew")]
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
    host.messages = host.messages[:8] + [user("from here anew")]
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
    host, before = two_compartments()
    change(host)
    after = talk(host, 1)
    assert after.level == "hard"
    assert host.last().reasons == ("cut_void",)
    assert host.state.cut == 30
    assert tail(after)[:14] == tail(before)[:14]
    assert headings(texts(after)[0]) == [(1, 16), (17, 30)]
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
            request = host.session.prepare(
                host.messages, system=trace.system, tools=trace.tools, now=clock.now / 1000
            )
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

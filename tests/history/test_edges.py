"""The sharp edges of history: summarisers that fail in every way, hosts that change what is covered, two processes."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import foldlog
from foldlog.adapters.historian import GIVE_UP, Historian
from foldlog.adapters.models.summarizers.port import Summarised, Summary, failure
from foldlog.adapters.models.tokens import tokenizer
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
    summarise,
    summarised,
    tail,
    talk,
    texts,
    work,
)
from support.talk import Chat, assistant, differences, events, use, user

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
        levels = []
        while "soft" not in levels and len(levels) < 10:  # the next run may be on already, and its summary comes first
            press(host, request)
            until(lambda: host.state.run is None)
            request = work(host, 1, 20)
            levels.append(request.level)
        assert levels[-1] == "soft"
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


@pytest.mark.rule("HIST-28")
@pytest.mark.parametrize("how", ["flush", "model", "fork", "usage alone", "still full"])
def test_what_gave_up_is_tried_again_where_there_is_room_again(how):
    summarizer = Scripted(answer=RAISES["bug"])
    host = chat(opened("memory:", summarizer), policy={"protected_tokens": 0}, model="a")
    talk(host, 1)
    work(host, 4, 300)
    full(host, 62)
    while host.state.failures < GIVE_UP:
        use(talk(host, 1, 300), WINDOW * 80 // 100)
    tried = len(summarizer.jobs)
    if how == "model":
        host.reopen(model="b")
        talk(host, 1)
        assert host.state.failures < GIVE_UP
    elif how == "fork":
        child = host.session.fork("child")
        assert child.core.hot().state.failures == 0
        return
    elif how != "usage alone":
        host.session.reduce(",".join(map(str, host.state.tools_order[:2])))
        host.session.flush()
        request = talk(host, 1)
        assert request.level == "soft+"
        use(request, WINDOW * (92 if how == "still full" else 70) // 100)
    for _ in range(3):
        use(talk(host, 1, 300), WINDOW * (92 if how == "still full" else 80) // 100)
    assert (len(summarizer.jobs) > tried) == (how in ("flush", "model"))
    assert len(summarizer.jobs) <= tried + GIVE_UP


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


@pytest.mark.rule("HIST-29", "ACC-16")
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
    assert summarizer.jobs == [], "the lease still holds: whether that process lives is not known"
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
    assert all(a[1] + 1 == b[0] for a, b in itertools.pairwise(spans))
    assert len(published(host)) == len(spans) == sum(len(one.jobs) for one in summarizers)
    assert differences(host.engine) == []


@pytest.mark.rule("HIST-30")
def test_a_stretch_chosen_before_another_covered_it_is_not_read_again(tmp_path):
    url, clock = f"sqlite:///{tmp_path}/log.db", Clock()
    host = chat(opened(url, clock=clock))
    full(host)
    with opened(url, clock=clock) as late:
        core = late.session("chat", context_limit=WINDOW).core
        core.hot()  # as it was before the other process summarised
        summarise(host, 16)
        summarizer = Scripted()
        Historian(summarizer, tokenizer(), inline=True).consider(core)
        host.session.core.refresh()
        assert [(one.first, one.last) for one in host.state.compartments] == [(1, 16)]
        assert summarizer.jobs == []
    host.engine.close()


@pytest.mark.rule("HIST-30")
def test_an_audit_sees_what_is_appended_while_it_reads():
    """A summary that comes in between is no damage."""
    host = chat()
    talk(host, 20)

    def seen(passes):
        if passes == 20 and not host.state.compartments:
            summarise(host, 16)

    read = host.engine.log.read
    host.engine.log.read = lambda *given: iter(list(read(*given)))  # as a store that reads in one go
    audit = host.engine.audit("chat", seen)
    host.engine.log.read = read
    assert [one for one in audit.differences if one.kind != "wire"] == []
    assert audit.events == host.state.version
    assert host.state.compartments


@pytest.mark.rule("HIST-30")
@pytest.mark.parametrize("full_up", [False, True])
def test_a_process_that_is_surely_gone_is_followed_at_once(tmp_path, full_up):
    """A killed process holds no lock: nobody waits for its summary, not even at 95%."""
    url, clock = f"sqlite:///{tmp_path}/log.db", Clock()
    host = chat(opened(url, clock=clock))
    full(host)
    dead = Historian(Scripted(), tokenizer())
    dead._go = lambda *_: None  # the process ends between the two events
    dead.consider(host.session.core)
    run = host.state.run
    assert run is not None
    summarizer = Scripted()
    other = chat(opened(url, summarizer, clock=clock))
    other.messages, other.now = host.messages, host.now
    request = talk(other, 1, 300)
    assert summarizer.jobs == [], "it lives"
    dead.close()
    if full_up:
        use(request, WINDOW * 97 // 100)
    talk(other, 1, 300)
    assert kinds(other) == ["gone"]
    assert other.state.failures == 0
    assert published(other)
    assert differences(other.engine) == []
    other.engine.close()
    host.engine.close()


@pytest.mark.rule("HIST-30")
def test_each_session_a_process_that_is_gone_was_at_work_on_is_taken_over():
    engine = opened()
    hosts = [Chat(engine, name, context_limit=WINDOW) for name in ("one", "two")]
    dead = Historian(Scripted(), tokenizer())
    dead._go = lambda *_: None
    for host in hosts:
        full(host)
        dead.consider(host.session.core)
        assert host.state.run is not None
    dead.close()
    engine.summaries = Historian(Scripted(), tokenizer(), inline=True)
    for host in hosts:
        host.session.core.summaries = engine.summaries
        talk(host, 1, 300)
        assert kinds(host) == ["gone"]
        assert published(host)


@pytest.mark.rule("HIST-29", "HIST-30")
def test_a_process_that_goes_while_it_is_waited_for_is_taken_over(monkeypatch):
    host = chat()
    use(full(host), WINDOW * 97 // 100)
    dead = Historian(Scripted(), tokenizer())
    dead._go = lambda *_: None
    dead.consider(host.session.core)
    assert host.state.run is not None
    host.session.core.summaries = Historian(Scripted(), tokenizer(), inline=True)
    monkeypatch.setattr("foldlog.adapters.historian.time.sleep", lambda _: dead.close())
    request = talk(host, 1, 300)
    assert kinds(host) == ["gone"]
    assert published(host)
    assert request.level == "soft"


@pytest.mark.rule("HIST-30")
def test_what_comes_after_the_lease_was_lost_is_not_stored():
    hanging, clock = Hanging(), Clock()
    with running(hanging, clock=clock) as (engine, historian):
        host = chat(engine)
        full(host)
        assert hanging.begun.wait(PATIENCE)
        core = host.session.core
        historian._watcher.submit(lambda: None).result(PATIENCE)  # it looks at nothing any more
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

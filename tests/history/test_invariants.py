"""The invariants of history (``specs/history.md``, INV-1 to INV-8), each on real requests."""

from __future__ import annotations

import itertools
import json
import random

import msgspec
import pytest

from foldlog.adapters.historian import Historian
from foldlog.adapters.models.summarizers import Extractive
from foldlog.adapters.models.tokens import tokenizer
from foldlog.adapters.traces.generator import generate
from foldlog.domain import events as ev
from foldlog.domain.coverage import covering
from foldlog.domain.errors import FoldlogError, StoreUnavailable
from foldlog.domain.state import key
from foldlog.projections.decay import render_within
from foldlog.projections.head import row
from foldlog.storage.backend import unknown_outcome
from support.past import (
    WINDOW,
    Clock,
    Scripted,
    arcs,
    covered,
    headings,
    opened,
    press,
    sent,
    summarise,
    tail,
    talk,
    texts,
    work,
)
from support.talk import Chat, differences, events, user

pytestmark = pytest.mark.slow

REASONS = {
    "first_render", "model_change", "system_hash", "tools_change", "ttl_idle", "cache_loss", "host_compaction",
    "cut_void", "pressure_refold",
}  # fmt: skip


DEEDS = ["talk", "talk", "work", "publish", "publish", "press", "drop", "flush", "lose", "model", "idle"]


def chat(url="memory:", **how):
    engine = opened(url, **{name: how.pop(name) for name in ("hook", "clock") if name in how})
    return Chat(engine, context_limit=WINDOW, **how)


def with_history(**how):
    """Return a session with one compartment behind its cut, and its last request."""
    host = chat(**how)
    request = talk(host, 20)
    summarise(host, 16)
    press(host, request)
    request = talk(host, 1)
    assert request.level == "soft"
    assert host.state.cut == 16
    press(host, request, 20)
    return host, request


@pytest.mark.rule("INV-1")
def test_two_deferred_passes_without_a_new_message_are_the_same():
    host, _ = with_history()
    first = talk(host, 1)
    again = host.again()
    assert again.pass_number == first.pass_number, "nothing happened in between"
    host.session.reduce("30")
    other = host.again()
    assert (first.level, other.level) == ("defer", "defer")
    assert other.pass_number > first.pass_number
    assert other.messages_json == first.messages_json
    assert other.digest == first.digest
    assert {event.number: event for event in events(host.session, ev.PassDeferred)}[other.pass_number].arrivals == ()
    assert host.state.cut == host.session.core.hot().view.cut == 16


@pytest.mark.rule("INV-2", "T5")
def test_a_publication_changes_nothing_until_a_rebuild_which_changes_all_together():
    host, _ = with_history(policy={"protected_tokens": 0})
    before = work(host, 8)  # the first result of the agent's work stays behind all that will be covered
    number = next(n for n, tag in enumerate(host.state.tags, 1) if tag.kind == "tool")
    host.session.reduce(str(number))
    view = msgspec.msgpack.encode(host.session.core.hot().view)
    summarise(host, 30)
    assert msgspec.msgpack.encode(host.session.core.hot().view) == view
    waiting = host.again()
    assert waiting.messages_json == before.messages_json
    grown = work(host, 1)
    assert (waiting.level, grown.level) == ("defer", "defer")
    assert grown.messages_json[: len(before.messages_json)] == before.messages_json
    assert host.state.cut == 16
    assert host.state.queue
    press(host, grown)
    rebuilt = work(host, 1)
    assert rebuilt.level == "soft"
    assert rebuilt.reasons == ("published",)
    assert texts(rebuilt)[0] == texts(grown)[0]
    assert headings(texts(grown)[1]) == [(1, 16)]
    assert headings(texts(rebuilt)[1]) == [(1, 16), (17, 30)]
    assert host.state.cut == host.last().cut == 30
    assert tail(rebuilt)[0] == 31
    assert not host.state.queue, "the waiting drops landed in the same pass"
    assert f"§{number}§" in sent(grown)
    assert f"§{number}§ output" not in sent(rebuilt)
    assert differences(host.engine) == []


@pytest.mark.rule("INV-3")
@pytest.mark.parametrize("seed", range(3))
def test_m0_changes_only_on_a_fold_with_a_reason(seed):
    """Whatever happens between them, in any order: history, pressure, drops, flushes, losses, models, systems."""
    chance = random.Random(seed)
    host = chat(model="a")
    request = talk(host, 4)
    m0, seen, levels = texts(request)[0], set(), set()
    for _ in range(130):
        expected = {"pressure_refold"}
        do = chance.choice(DEEDS)
        given, wait = {}, 10.0
        state = host.state
        if do == "publish":
            end = len(state.path) - 4
            if end > len(covered(host, state.compartments[-1].last if state.compartments else 0)) + 1:
                summarise(host, end, Scripted(chance.choice([1, 2, 3]), size=chance.choice([10, 60, 150])))
        elif do == "press":
            press(host, request, chance.choice([66, 88]))
        elif do == "drop":
            live = [n for n, tag in enumerate(state.tags, 1) if state.pos.get(tag.m, -1) >= state.start()]
            host.session.reduce(str(chance.choice(live)))
        elif do == "flush":
            host.session.flush()
        elif do == "lose":
            host.session.report_cache_loss("said so")
            expected.add("cache_loss")
        elif do == "model":
            host.reopen(model=chance.choice("ab"))
            expected.add("model_change")
        elif do == "idle":
            wait = 400.0
            expected.add("ttl_idle")
        request = work(host, 1, 60) if do == "work" else talk(host, 1, 60, wait=wait, **given)
        levels.add(request.level)
        if texts(request)[0] != m0:
            assert request.level == "hard", "only a fold changes m[0]"
        if request.level == "hard":
            reasons = set(host.last().reasons)
            assert reasons <= expected, (do, reasons)
            assert reasons
            assert reasons <= REASONS
            seen |= reasons
        m0 = texts(request)[0]
    assert {"pressure_refold", "cache_loss", "ttl_idle"} <= seen, seen
    assert levels >= {"defer", "soft", "hard"}
    assert differences(host.engine) == []


@pytest.mark.rule("INV-3", "DECAY-1")
def test_tiers_change_only_on_a_fold():
    host = chat()
    talk(host, 4)
    for end in range(2, 80, 2):  # more than their budget holds: old ones lose detail
        talk(host, 1, 20)
        summarise(host, end, Scripted(size=60))
    request = talk(host, 1)
    host.session.report_cache_loss("said so")
    request = talk(host, 1)
    shown = texts(request)[0]
    tiers = {bool("it it it" in block) for block in shown.split("\n\n")}
    assert tiers == {True, False}, "some at full length, some not"
    for _ in range(6):
        request = talk(host, 1)
        assert texts(request)[0] == shown
    summarise(host, 84, Scripted(size=60))
    press(host, request)
    request = talk(host, 1)
    if request.level == "soft":
        assert texts(request)[0] == shown
    host.session.report_cache_loss("said so")
    assert texts(talk(host, 1))[0] != shown


def taken_out(state):
    """Return the messages that were dropped with their arc: nothing of them is sent, in the tail or anywhere."""
    absent = {key(tag.m, tag.p) for tag in state.tags if tag.mode == "full"}
    absent |= {state.call_of[place] for place in absent}
    parts = {m: range(len(state.node(m).message.parts)) for m in state.path}
    return {m for m in state.path if parts[m] and all(key(m, p) in absent for p in parts[m])}


def held_once(host, request):
    """Assert that every message of the path is in one compartment or in the raw tail that is sent; return the cut."""
    state = host.state
    behind, raw = covered(host), tail(request)
    assert len(set(behind)) == len(behind)
    away = taken_out(state)
    assert behind + raw == [m for m in state.path if m in behind or m not in away], "in order, without a gap"
    m0, m1 = texts(request)
    spans = {(one.first, one.last): one for one in state.compartments}
    named = headings(m0) + headings(m1)
    assert len(set(named)) == len(named), "a compartment stands in m[0] or m[1], not in both"
    assert set(named) <= {span for span, one in spans.items() if one.last in behind}
    fold = max(one.seq for one in [*spans.values()] if one.last in behind) if behind else -1
    since = {span for span, one in spans.items() if one.seq not in state.baseline and one.seq <= fold}
    new = [span for span, one in spans.items() if span in since and one.last in behind]
    assert headings(m1) == new
    return state.cut


@pytest.mark.rule("INV-4")
@pytest.mark.parametrize("codec", ["anthropic", "openai-chat", "pi"])
def test_every_message_is_in_one_compartment_or_in_the_tail(codec):
    trace = generate(3, 120, codec=codec)
    clock = Clock()
    engine = opened("memory:", Extractive(tokenizer()), clock=clock)
    host = Chat(engine, codec=codec, model=trace.model, context_limit=30_000, lanes=True)
    cuts = set()
    for step in trace.steps:
        host.messages += step.messages
        clock.now = step.at or clock.now + 10_000
        request = host.session.prepare(host.messages, system=trace.system, tools=trace.tools, now=clock.now / 1000)
        cuts.add(held_once(host, request))
        request.report_usage(input=request.usage_estimate, now=clock.now / 1000)
        ends = {host.state.pos[one.last] + 1 for one in host.state.compartments}
        for start, end in arcs(host.messages):
            assert not [cut for cut in ends if start <= cut < end], "a pair of call and result was split"
    assert len(cuts) > 3
    assert [one for one in engine.audit("chat").differences if one.kind != "wire"] == []


@pytest.mark.rule("INV-5")
@pytest.mark.parametrize("pieces", [1, 2, 5])
def test_no_pair_is_split_whatever_a_summariser_proposes(pieces):
    """Parallel calls answered message by message, as openai hosts do; the summariser cuts where it likes."""
    summarizer = Scripted(pieces)
    engine = opened("memory:", summarizer)
    host = Chat(engine, codec="openai-chat", context_limit=WINDOW)
    request = host.say(user("begin"))
    for number in range(40):
        ids = [f"c{number}-{n}" for n in range(1 + number % 4)]
        calls = [{"id": i, "type": "function", "function": {"name": "sh", "arguments": "{}"}} for i in ids]
        answers = [{"role": "tool", "tool_call_id": i, "content": f"out {i} " + "x " * 120} for i in ids]
        request = host.say({"role": "assistant", "content": f"step {number}", "tool_calls": calls}, *answers)
        request.report_usage(input=request.usage_estimate)
    pairs = arcs(host.messages)
    state = host.state
    ends = {state.pos[one.last] + 1 for one in state.compartments} | {job.end for job in summarizer.jobs}
    starts = {job.start - 1 for job in summarizer.jobs}
    assert len(pairs) == 100
    assert len(summarizer.jobs) > 1
    assert len(state.compartments) > 1
    for place in ends | starts:
        assert not [pair for pair in pairs if pair[0] <= place < pair[1]], place


@pytest.mark.rule("INV-6", "DECAY-6")
def test_the_same_compartments_give_the_same_bytes_in_any_order():
    """One run of four, four runs of one, and rows in every order: one text."""
    shown = []
    for runs in ([16], [4, 8, 12, 16], [8, 16]):
        host = chat()
        request = talk(host, 20)
        for end in runs:
            summarise(host, end, Scripted(4 // len(runs)))  # every run says the same of the same four messages
        host.session.report_cache_loss("said so")
        request = talk(host, 1)
        shown.append(texts(request)[0])
    assert headings(shown[0]) == [(1, 4), (5, 8), (9, 12), (13, 16)]
    assert shown[0] == shown[1] == shown[2]
    core = host.session.core
    found = list(host.state.compartments)
    rows = [row(one, core.text) for one in found]
    wanted = render_within(rows, 60, tokenizer()).text
    place = {m: index for index, m in enumerate(host.state.path)}
    for order in itertools.permutations(range(len(found))):
        assert render_within([rows[i] for i in order], 60, tokenizer()).text == wanted
        given = [found[i] for i in order]
        assert list(covering(given, host.state.spans, host.state.path, lambda m: place.get(m, -1))) == found


class Crash(Exception):
    """What nobody expects: the process ends here."""


@pytest.mark.rule("INV-7")
@pytest.mark.parametrize("error", [Crash(), StoreUnavailable("disk full"), unknown_outcome("the connection broke")])
@pytest.mark.parametrize("where", ["before", "inside", "after"])
@pytest.mark.parametrize("append", [1, 2])
def test_a_crash_while_publishing_leaves_all_or_nothing(tmp_path, append, where, error):
    """``append`` 1 stores that a run began, 2 what came of it."""
    url = f"sqlite:///{tmp_path}/log.db"
    armed, clock = [], Clock()

    def hook(place):
        if armed and place == where:
            armed[0] -= 1
            if not armed[0]:
                armed.clear()
                raise error

    host = chat(url, hook=hook, clock=clock)
    last = talk(host, 20).messages_json
    armed.append(append)
    try:
        summarise(host, 16)
    except (Crash, FoldlogError, AssertionError):
        pass
    armed.clear()
    host.engine.close()

    again = Chat(opened(url, clock=clock), context_limit=WINDOW)
    again.messages, again.now = list(host.messages), host.now
    stored = events(again.session)
    begun = [event for event in stored if isinstance(event, ev.HistorianStarted)]
    ended = [event for event in stored if isinstance(event, ev.HistorianPublished)]
    assert len(begun) <= 1
    assert len(ended) <= len(begun)
    assert len(again.state.compartments) == len(ended)
    for one in again.state.compartments:
        assert again.session.core.text(one.title).decode() == "From 1 to 16"
        assert all(again.session.core.text(digest) is not None for digest in one.tiers)
    assert again.again().messages_json == last, "the request is what it was"
    assert differences(again.engine) == []
    assert again.engine.log.verify().faults == ()
    if not ended:
        clock.now += 300_001  # the lease of what crashed runs out
        summarise(again, 16)
    press(again, again.again())
    assert headings(texts(talk(again, 1))[1]) == [(1, 16)]
    assert differences(again.engine) == []
    again.engine.close()


@pytest.mark.rule("INV-8")
def test_boundary_and_bytes_agree_in_a_restart_a_replay_and_a_fork(tmp_path):
    url = f"sqlite:///{tmp_path}/log.db"
    clock = Clock()
    host = chat(url, clock=clock)
    request = talk(host, 12)
    made = {}

    def keep(one):
        state, view = host.state, host.session.core.hot().view
        event = host.last()
        assert state.cut == view.cut == getattr(event, "cut", state.cut)
        assert tail(one) == state.path[state.start() :]
        made[one.pass_number] = (one.messages_json, one.digest, host.id)
        return one

    for turn in range(24):
        if turn % 4 == 1:
            summarise(host, len(host.state.path) - 8)
        if turn % 4 == 2:
            press(host, request)
        if turn % 12 == 7:
            host.session.report_cache_loss("said so")
        if turn % 5 == 3:  # another process goes on
            host.engine.close()
            new = Chat(opened(url, clock=clock), context_limit=WINDOW)
            new.messages, new.now = host.messages, host.now
            host = new
            assert host.session.core.hot().view.cut == host.state.cut
        request = keep(talk(host, 1))
    assert len({host.state.cut, 0}) == 2
    levels = {type(event).__name__ for event in events(host.session, ev.Pass)}
    assert levels >= {"HistoryRefreshed", "BaselineFolded", "PassDeferred"}
    for number, (messages, digest, name) in made.items():
        again = host.engine.replay(name, number)
        assert again.messages == messages
        assert again.digest.hex() == digest
    host.session.fork("child")
    child = Chat(host.engine, id="child", context_limit=WINDOW)
    child.messages, child.now = list(host.messages), host.now
    first = talk(child, 1)
    assert first.level == "defer"
    assert first.messages_json[: len(request.messages_json)] == request.messages_json
    assert child.state.cut == child.session.core.hot().view.cut == host.state.cut
    assert differences(host.engine) == differences(host.engine, "child") == []
    host.engine.close()


def test_the_summariser_reads_whole_messages_only():
    """INV-5: what a run reads is what the log holds, from the offset on, each message once."""
    summarizer = Scripted()
    engine = opened("memory:", summarizer)
    host = Chat(engine, context_limit=WINDOW)
    request = host.say(user("begin"))
    while len(summarizer.jobs) < 3:
        request = talk(host, 1, 300)
        request.report_usage(input=request.usage_estimate)
    place = 1
    for job in summarizer.jobs:
        assert job.start == place
        assert [turn.position for turn in job.turns] == list(range(job.start, job.end + 1))
        for turn in job.turns:
            content = host.messages[turn.position - 1]["content"]
            assert "".join(turn.texts).split() == content.split()
        place = job.end + 1
    assert isinstance(engine.summaries, Historian)


def test_importing_events_of_history_changes_no_older_request():
    """INV-8: a request made before a summary can be built after it, from the log, as it was."""
    host = chat()
    early = talk(host, 20)
    before = [json.loads(raw) for raw in early.messages_json]
    summarise(host, 16)
    press(host, early)
    later = talk(host, 1)
    assert later.level == "soft"
    early._built = None
    assert [json.loads(raw) for raw in early.messages_json] == before

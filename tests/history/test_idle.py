"""The clock that lets a summary ride a cache that idleness has cost anyway."""

from __future__ import annotations

import threading

import foldlog
from foldlog.adapters.historian import Historian
from foldlog.adapters.idle import LONGEST, IdleClock
from foldlog.adapters.models.summarizers import Extractive
from foldlog.adapters.models.tokens import tokenizer
from support.talk import START, assistant, user, words


def test_a_name_is_due_once_and_only_when_it_was_not_touched_again():
    now = [0.0]
    clock = IdleClock(lambda _: None, lambda: now[0])
    clock._thread = threading.current_thread()  # the test is its thread
    clock.touch("a", 300)
    clock.touch("b", 300)
    now[0] = 200
    clock.touch("b", 300)
    clock.touch("c", LONGEST + 1)
    now[0] = 301
    assert clock.due() == ["a"]
    assert clock.due() == []
    now[0] = 501
    assert clock.due() == ["b"]


def test_a_silent_session_is_summarised_before_its_fold():
    """HIST-39: no host calls in; the clock alone makes the summary that the next, folding pass takes in."""
    count = tokenizer()
    historian = Historian(Extractive(count), count)
    engine = foldlog.Engine.open("memory:", summarizer=None)
    session = engine.session("s", context_limit=100_000, policy={"execute_threshold_percentage": 90})
    messages: list[object] = []
    for n in range(12):
        messages += [user(f"do step {n}: " + words(1_500)), assistant(f"step {n} is done")]
    messages.append(user("go on"))
    session.prepare(messages, now=START)
    session.core.summaries = historian  # it saw no pass of this session: only the clock can make it look
    historian._cores[session.core.stream] = session.core
    historian._gone_silent(session.core.stream)
    for _ in range(1_000):
        historian._watcher.submit(lambda: None).result(60)
        if session.core.hot().state.compartments and not historian._works:
            break
        threading.Event().wait(0.05)
    assert session.core.hot().state.compartments
    request = session.prepare([*messages, assistant("yes"), user("and now?")], now=START + 400)
    assert (request.level, request.reasons[0]) == ("hard", "ttl_idle")
    assert session.core.hot().state.cut > 0
    historian.close()

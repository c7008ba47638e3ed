"""A full session and its summariser: what is waited for, what is refused meanwhile, and how often it is tried."""

from __future__ import annotations

import pytest

import foldlog
from foldlog.adapters.models.summarizers.port import failure
from foldlog.domain import events as ev
from foldlog.domain.measured import RETRIED
from support.past import WINDOW, Hanging, Scripted, opened, running, talk
from support.talk import Chat, assistant, differences, events, text, thinking, use, user, words


def full(host: Chat, share: int) -> foldlog.Request:
    """Let a session grow until ``share`` per cent of its window is used, as the provider counts."""
    request = talk(host, 1, 300)
    while request._produced.event.tokens * 100 < share * WINDOW:
        request = talk(host, 1, 300)
    use(request, request._produced.event.tokens)
    return request


def refused(host: Chat, waiting: object = None) -> str:
    with pytest.raises(foldlog.Refused) as caught:
        host.again(waiting=waiting)
    assert caught.value.recoverable
    return caught.value.code


@pytest.mark.rule("OVER-20", "T37")
def test_over_the_window_a_pass_that_waited_in_vain_is_refused_until_the_summary_is_there():
    """7.3: the turn is not sent into a certain refusal; it is sent as soon as there is room."""
    hanging = Hanging()
    with running(hanging) as (engine, historian):
        historian.timeout_ms = 200
        host = Chat(engine, context_limit=WINDOW)
        use(full(host, 88), WINDOW * 96 // 100)
        host.messages += [assistant("a"), user("one more " + words(3_000))]
        said: list[str] = []
        assert refused(host, said.append) == "EMERGENCY_FAIL_CLOSED"
        assert len(said) == 1
        host.messages += [assistant("c"), user("d")]
        assert refused(host, said.append) == "EMERGENCY_FAIL_CLOSED"
        assert len(said) == 1, "one notice a run"
        assert host.state.overflow is None
        hanging.go.set()
        assert historian._works[host.session.core.stream].done.wait(20)
        request = host.again()
        assert request.level == "soft"
        assert request._produced.event.tokens < WINDOW
        assert differences(engine) == []


@pytest.mark.rule("OVER-20")
@pytest.mark.parametrize("share", [96, 99])
def test_within_the_window_it_is_sent(share: int):
    hanging = Hanging()
    with running(hanging) as (engine, historian):
        historian.timeout_ms = 200
        host = Chat(engine, context_limit=WINDOW)
        full(host, share - 1)
        host.messages += [assistant("a"), user("b")]
        assert host.again().level in ("defer", "soft+")


@pytest.mark.rule("OVER-21")
def test_a_summariser_that_always_fails_is_asked_so_often_and_no_more():
    """OV-02: each try costs; a provider's overflow and a person's flush are each worth one more."""

    def answer(job: object) -> object:
        raise failure("rubbish", "no")

    summarizer = Scripted(answer=answer)
    host = Chat(opened("memory:", summarizer), context_limit=WINDOW)
    request = full(host, 80)
    for number in range(20):
        use(request, WINDOW * 96 // 100)
        request = host.say(assistant("a"), user(f"b{number}"))
    assert host.state.failures == len(summarizer.jobs) == RETRIED
    host.session.flush()
    use(request, WINDOW * 96 // 100)
    request = host.say(assistant("a"), user("b"))
    assert len(summarizer.jobs) == RETRIED + 1
    request.report_failure("overflow")
    for number in range(3):
        host.messages += [assistant("x"), user(f"{number}")]
        try:
            host.again()
        except foldlog.Refused:
            pass
    assert len(summarizer.jobs) == RETRIED + 2
    assert len(events(host.session, ev.HistorianFailed)) == RETRIED + 2


@pytest.mark.rule("THINK-4")
def test_refused_reasoning_leaves_although_a_summary_is_under_way():
    """What the provider does not take cannot wait for a summary that may take minutes."""
    hanging = Hanging()
    with running(hanging) as (engine, _):
        host = Chat(engine, context_limit=WINDOW, model="claude-opus-5-5")
        full(host, 78)
        request = host.say(assistant([thinking(), text("ok")]), user("go on"))
        assert hanging.begun.wait(20)
        assert b'"thinking"' in b"".join(request.messages_json)
        refusal = "messages.1.content.0: Invalid `signature`. The block is bound to a different conversation."
        request.report_error(400, refusal)
        request = host.again()
        assert "thinking_recovery" in request.reasons
        assert b'"thinking"' not in b"".join(request.messages_json)
        hanging.go.set()

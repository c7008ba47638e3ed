"""Traps of a full session and of what is known of its window: each a real defect once (transform.md 9)."""

from __future__ import annotations

import pytest

import foldlog
from foldlog.domain import events as ev
from foldlog.domain.errors import StoreBusy
from support.past import summarise
from support.talk import Chat, events, fingerprint, use, user, words


@pytest.mark.rule("WINDOW-13", "T31")
def test_a_change_of_model_is_seen_once_and_by_the_last_usage():
    """T31: told by what the last request was for, not by a live map that has moved on already."""
    chat = Chat(model="a")
    use(chat.say(user("start")), 100_000)
    chat.reopen(model="b")
    assert chat.session.status().usage_source == "provider", "asking for the session changes nothing yet"
    assert "model_change" in chat.turn().reasons
    assert chat.again().pass_number == chat.session.status().passes
    assert chat.turn().reasons == ()
    assert len(events(chat.session, ev.ModelChanged)) == 2
    chat.reopen(model="a")
    chat.reopen(model="b")
    assert chat.turn().reasons == (), "there and back between two requests is no change"


@pytest.mark.rule("WINDOW-10", "T38")
@pytest.mark.parametrize(
    "text", ["maximum context length is 8 tokens", "exceeds the limit of 2", "context window of 3 exceeded"]
)
def test_one_digit_is_no_limit(text: str):
    """T38: what a greedy pattern caught shrank the window for good."""
    chat = Chat()
    assert chat.say(user("start")).report_error(400, f"prompt is too long: {text}").overflow
    assert chat.session.status().window == 200_000


@pytest.mark.rule("WINDOW-11", "T40")
@pytest.mark.parametrize("restart", [False, True])
def test_old_usage_puts_no_new_process_at_95(restart: bool):
    """T40: usage belongs to its request; what was measured before a rebuild is gone with it, in any process."""
    chat = Chat(policy={"protected_tokens": 0})
    chat.say(user("start"))
    for number in range(8):
        request = chat.tool(f"t{number}", words(3_000), name="fetch")
    use(request, 196_000)
    rebuilt = chat.turn()
    assert rebuilt._produced.event.decision.percent >= 9_500
    assert rebuilt.level == "soft+"
    if restart:
        chat.session.core._hot = None
    before = len(events(chat.session))
    follows = chat.turn()
    decision = follows._produced.event.decision
    assert decision is None or decision.source == "estimated"
    assert follows.level == "defer"
    assert len(events(chat.session)) - before == 2


@pytest.mark.rule("REFUSE-6", "T49")
def test_a_busy_store_sends_nothing_raw(monkeypatch: pytest.MonkeyPatch):
    """T49: no request is better than the whole raw history; the session is as it was, and the next call is whole."""
    chat = Chat()
    chat.say(user("start"))
    before = fingerprint(chat.session)

    def busy(*_: object, **__: object) -> None:
        raise StoreBusy("another process held the lock")

    with monkeypatch.context() as patch:
        patch.setattr(chat.session.core.log, "append", busy)
        with pytest.raises(foldlog.StoreBusy) as caught:
            chat.turn()
    assert caught.value.recoverable
    assert fingerprint(chat.session) == before
    assert chat.again().level == "defer"


@pytest.mark.rule("REFUSE-1", "REFUSE-2", "TAG-7", "T50")
def test_a_fork_longer_than_the_window_is_not_sent_whole_on_its_first_pass():
    """T50: nothing a provider measured is inherited, so the child knows of its size only what it counts."""
    chat = Chat(context_limit=1_000_000)
    for number in range(30):
        chat.say(*([] if not number else [{"role": "assistant", "content": "ok"}]), user(words(900) + f" {number}"))
    child = chat.session.fork("child")
    small = Chat(chat.engine, "child", context_limit=20_000)
    small.messages = [*chat.messages, {"role": "assistant", "content": "ok"}, user("go")]
    assert child.id == small.session.id
    with pytest.raises(foldlog.Refused) as caught:
        small.again()
    assert caught.value.code == "UNMANAGED_OVER_WINDOW"
    small.reopen(context_limit=1_000_000)
    assert small.again().level == "defer", "with room it serves its parent's bytes and goes on"
    small.reopen(context_limit=20_000)
    assert small.turn().level == "defer", "managed by now"


@pytest.mark.rule("REFUSE-1", "TAG-7", "T50")
@pytest.mark.parametrize("how", ["a drop", "a summary", "neither"])
def test_of_a_fork_that_something_has_made_smaller_the_first_pass_is_sent(how: str):
    """One drop or one summary is enough: then it is managed, and a count of our own refuses nothing."""
    chat = Chat(context_limit=1_000_000, policy={"protected_tokens": 0})
    for number in range(30):
        chat.say(*([] if not number else [{"role": "assistant", "content": "ok"}]), user(words(900) + f" {number}"))
    if how == "a drop":
        chat.session.reduce("1")
        chat.session.flush()
    elif how == "a summary":
        summarise(chat, 2)
        chat.session.report_cache_loss("said so")
    chat.turn()
    chat.session.fork("child")
    small = Chat(chat.engine, "child", context_limit=20_000, policy={"protected_tokens": 0})
    small.messages = [*chat.messages, {"role": "assistant", "content": "ok"}, user("go")]
    if how == "neither":
        with pytest.raises(foldlog.Refused, match="has not been managed"):
            small.again()
    else:
        assert small.again().level

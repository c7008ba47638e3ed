"""Requests that must not be sent, and everything that must not be refused."""

from __future__ import annotations

import pytest

import foldlog
from foldlog.domain import events as ev
from support.talk import Chat, assistant, call, differences, events, fingerprint, result, shown, use, user, words


def long(messages: int, tokens: int = 700) -> list[dict[str, object]]:
    turns = [user(words(tokens) + f" {n}") if n % 2 == 0 else assistant("ok") for n in range(messages)]
    return [*turns, user("go")] if messages % 2 == 0 else turns


def refused(chat: Chat, code: str) -> foldlog.Refused:
    with pytest.raises(foldlog.Refused) as caught:
        chat.again()
    assert caught.value.code == code
    assert caught.value.recoverable
    return caught.value


@pytest.mark.rule("REFUSE-1", "REFUSE-2", "REFUSE-6")
def test_a_first_pass_over_the_window_is_refused_until_it_fits():
    """7.4, T50: a long session nothing has managed; it stays flagged."""
    chat = Chat(context_limit=20_000)
    chat.messages = long(70)
    assert "20,000" in refused(chat, "UNMANAGED_OVER_WINDOW").message
    assert chat.state.unmanaged
    before = fingerprint(chat.session)
    refused(chat, "UNMANAGED_OVER_WINDOW")
    assert fingerprint(chat.session) == before, "the same request again appends nothing"
    chat.messages += [assistant("x"), user("y")]
    refused(chat, "UNMANAGED_OVER_WINDOW")
    chat.reopen(context_limit=200_000)
    request = chat.again()
    assert (request.level, request.reasons) == ("hard", ("first_render",))
    assert not chat.state.unmanaged
    chat.reopen(context_limit=20_000)
    assert chat.turn().level == "defer", "managed by now: an estimate alone refuses nothing"


@pytest.mark.rule("REFUSE-1")
@pytest.mark.parametrize(("factor", "sent"), [(0.9, True), (1.04, True), (1.2, False)])
def test_only_a_tenth_over_the_window_counts(factor: float, sent: bool):
    chat = Chat(context_limit=20_000, reduce_tool=False)
    chat.messages = [user(words(int(20_000 * factor)))]
    if sent:
        assert chat.again().level == "hard"
    else:
        refused(chat, "UNMANAGED_OVER_WINDOW")


@pytest.mark.rule("REFUSE-1")
@pytest.mark.parametrize("options", [{"context_limit": None}, {"mode": "subagent"}, {"policy": {"compaction": False}}])
def test_no_refusal_without_a_window_for_a_subagent_or_without_compaction(options: dict[str, object]):
    chat = Chat(**{"context_limit": 20_000, **options})
    chat.messages = long(70)
    assert chat.again().level == "hard"


@pytest.mark.rule("REFUSE-2")
def test_a_refused_session_survives_a_restart():
    engine = foldlog.Engine.open("memory:", summarizer=None)
    chat = Chat(engine, context_limit=20_000)
    chat.messages = long(70)
    refused(chat, "UNMANAGED_OVER_WINDOW")
    chat.session.core._hot = None
    refused(chat, "UNMANAGED_OVER_WINDOW")


@pytest.mark.rule("REFUSE-3")
@pytest.mark.parametrize("mode", ["primary", "subagent"])
@pytest.mark.parametrize("limit", [100_000, None])
def test_after_an_overflow_only_a_smaller_request_is_sent(mode: str, limit: int | None):
    """7.3, OV-01, OV-14: one clear refusal, no loop, and success is judged on the bytes of the next request."""
    chat = Chat(mode=mode, policy={"protected_tokens": 0})
    chat.say(user("start"))
    for number in range(6):
        chat.tool(f"t{number}", words(2_000))
    request = chat.turn()
    request.report_failure("overflow", limit=limit, used=limit and 120_000)
    error = refused(chat, "CONTEXT_FULL")
    assert ("smaller task" if mode == "subagent" else "take back the newest message") in error.message.lower()
    assert "§" in error.message, "the largest part is named as the agent knows it"
    chat.messages += [assistant("x"), user("more")]
    refused(chat, "CONTEXT_FULL")
    assert isinstance(events(chat.session)[-1], ev.PassRefused)
    chat.session.reduce("2-7")
    sent = chat.again()
    assert sent.level == "soft+"
    assert sent.usage_estimate < 100_000
    use(sent, 20_000)
    assert chat.state.overflow is None
    assert chat.turn().level == "defer"


@pytest.mark.rule("REFUSE-3")
def test_a_request_still_over_the_learnt_limit_is_refused():
    chat = Chat()
    chat.say(user("start"))
    for number in range(6):
        chat.tool(f"t{number}", words(2_000))
    chat.turn().report_failure("overflow", limit=4_000)
    chat.session.reduce("2")
    refused(chat, "CONTEXT_FULL")
    chat.messages = chat.messages[:1]
    assert chat.again().usage_estimate < 4_000


@pytest.mark.rule("REFUSE-3", "WINDOW-10")
def test_another_model_is_not_refused_for_the_first_ones_limit():
    chat = Chat(model="small")
    chat.say(user("start " + words(3_000)))
    chat.turn().report_failure("overflow", limit=2_000)
    refused(chat, "CONTEXT_FULL")
    chat.reopen(model="large")
    assert chat.again().reasons == ("model_change",)
    chat.reopen(model="small")
    assert chat.turn().level == "hard", "what was learnt was forgotten with the change"


@pytest.mark.rule("REFUSE-4")
def test_a_subagent_has_its_own_window():
    """OV-21: the child is not judged by its parent's limit."""
    engine = foldlog.Engine.open("memory:", summarizer=None)
    parent = Chat(engine, "parent", context_limit=1_000_000)
    child = Chat(engine, "child", context_limit=200_000, mode="subagent")
    for one in (parent, child):
        one.say(user("start"))
        use(one.turn(), 180_000)
    assert parent.session.status().usage_percent == 1_800
    assert child.session.status().usage_percent == 9_000
    child.turn().report_failure("overflow", limit=190_000)
    refused(child, "CONTEXT_FULL")
    assert parent.turn().level == "defer"


@pytest.mark.rule("REFUSE-6")
def test_a_refusal_is_stored_and_leaves_the_session_usable():
    chat = Chat()
    request = chat.say(user("start"), assistant("a"), user(words(300)))
    request.report_failure("overflow")
    refused(chat, "CONTEXT_FULL")
    stored = events(chat.session, ev.PassRefused)
    assert [(one.code, one.number) for one in stored] == [("CONTEXT_FULL", 2)]
    with pytest.raises(foldlog.UnknownTag):
        chat.engine.replay("chat", 2)
    assert chat.engine.replay("chat").digest.hex() == request.digest
    assert differences(chat.engine) == []
    chat.messages = chat.messages[:1]
    sent = chat.again()
    assert sent.pass_number == 3
    assert sent.level == "defer"


@pytest.mark.rule("REFUSE-6", "TAG-6")
def test_what_was_refused_on_a_path_that_comes_back_gets_its_number():
    """The head left it and came back while nothing was sent: it is new to the first request that holds it."""
    chat = Chat()
    begin = user("start", id="1"), assistant("a", id="2"), user(words(3_000), id="3")
    chat.say(*begin).report_failure("overflow", limit=2_000)
    chat.messages += [assistant("b", id="4"), user("more", id="5")]
    refused(chat, "CONTEXT_FULL")
    whole, chat.messages = chat.messages, chat.messages[:1]
    assert shown(chat.again()) == [1]
    chat.messages = whole
    refused(chat, "CONTEXT_FULL")
    chat.session.reduce("3")
    chat.session.flush()
    assert shown(chat.again()) == [1, 2, 4, 5]
    assert differences(chat.engine) == []


@pytest.mark.rule("REFUSE-5")
def test_compaction_off_never_refuses():
    chat = Chat(policy={"compaction": False})
    chat.say(user("start")).report_failure("overflow", limit=2_000)
    assert chat.turn(words(5_000)).level == "defer"


@pytest.mark.rule("REFUSE-5")
def test_one_step_over_a_small_window_is_not_refused_by_an_estimate():
    """OV-20: the drain of the same pass is what there is; a refusal needs the provider's word."""
    chat = Chat(context_limit=40_000, policy={"protected_tokens": 0})
    chat.say(user("start"))
    for number in range(5):
        request = chat.tool(f"t{number}", words(6_000))
    use(request, 31_000)
    chat.session.reduce("2-3")
    request = chat.tool("big", words(11_000))
    assert request.level == "soft+"
    assert request.usage_estimate < 40_000


@pytest.mark.rule("REFUSE-7")
@pytest.mark.parametrize(("kept", "code"), [(6, "PROTECTED_OVER_LIMIT"), (2, "")])
def test_protected_results_that_cannot_fit_by_themselves_are_refused(kept: int, code: str):
    """7.3: the one refusal of a healthy pass."""
    chat = Chat(context_limit=20_000, reduce_tool=False, policy={"protected_tools": {"read_all": kept}})
    chat.given = {"system": "be brief", "tools": [{"name": "read_all", "input_schema": {"type": "object"}}]}
    use(chat.say(user("start " + words(1_000))), 1_010)
    for number in range(6):
        chat.tool(f"t{number}", words(3_800), name="read_all")
    chat.messages += [assistant([call("t6", "read_all")]), user([result("t6", words(3_800))])]
    if code:
        said = refused(chat, code).message
        assert said.endswith("Protect fewer of them (protected_tools), or take back the newest message.")
        chat.session.reduce("2-3")
        assert "Let what is marked leave (foldlog flush, or /ctx-flush in the host), protect fewer" in (
            refused(chat, code).message
        )
        assert chat.state.overflow is None
        chat.given = {"system": "", "tools": []}
        assert chat.again().level == "hard", "what a host keeps to itself is not known: nothing is refused by that"
    else:
        assert chat.again().level in ("defer", "soft+")

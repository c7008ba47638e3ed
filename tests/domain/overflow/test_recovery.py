"""What a session does after its provider said that a request was too long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import foldlog
from foldlog.domain import events as ev
from foldlog.domain.window import EMERGENCY
from support.talk import Chat, assistant, differences, events, fingerprint, use, user, words


class Forgetful(Chat):
    """A host whose process is killed before each request: what was only in memory is gone."""

    def again(self, **given: Any) -> foldlog.Request:
        self.session.core._hot = None
        self.session.core._last = None
        return super().again(**given)


def grown(tools: int = 6, make: type[Chat] = Chat, name: str = "Bash", **options: Any) -> Chat:
    """A session of large results: of a shell, whose newest stay by themselves, or of a tool any lane may drop."""
    chat = make(**{"policy": {"protected_tokens": 0}, **options})
    chat.say(user("start"))
    for number in range(tools):
        chat.tool(f"t{number}", words(2_000), name=name)
    return chat


def spoken(size: int = 3_000, make: type[Chat] = Chat, **options: Any) -> Chat:
    """A session in which nothing can be dropped by itself: one large prompt, and talk."""
    chat = make(**options)
    chat.say(user(words(size)), assistant("a"), user("b"))
    return chat


def refused(chat: Chat, code: str = "CONTEXT_FULL") -> str:
    with pytest.raises(foldlog.Refused) as caught:
        chat.again()
    assert caught.value.code == code
    return caught.value.message


def local(request: foldlog.Request) -> int:
    return request._produced.event.tokens


def told(chat: Chat) -> list[tuple[Any, ...]]:
    """What is stored, without wall clocks and ids."""
    bare = [msgspec.structs.replace(event, at=0, cmd="") for event in events(chat.session)]
    return [(type(event).__name__, event) for event in bare]


# ------------------------------------------------------------------ arming


@pytest.mark.rule("OVER-12")
def test_an_unanswered_overflow_puts_each_pass_at_95_until_an_answer():
    chat = grown(name="fetch")
    use(chat.turn(), 9_000)
    chat.turn().report_failure("overflow", limit=100_000, used=101_000)
    assert chat.session.status().recovering
    sent = chat.again()
    decision = sent._produced.event.decision
    assert (decision.source, decision.permission) == ("synthetic", True)
    assert decision.percent >= EMERGENCY
    assert decision.tokens > 100_000, "what the provider counted, not what it counted before"
    use(sent, 60_000)
    assert not chat.session.status().recovering
    assert chat.turn().level == "defer"


@pytest.mark.rule("OVER-12")
@pytest.mark.parametrize("end", ["answer", "usage", "model", "fork"])
def test_what_ends_recovery(end: str):
    chat = grown(name="fetch")
    chat.turn().report_failure("overflow", limit=100_000, used=101_000)
    if end == "fork":
        assert not chat.session.fork("child").status().recovering
        return
    if end == "model":
        chat.reopen(model="another")
        chat.again()
    else:
        sent = chat.again()
        if end == "usage":
            use(sent, 50_000)
        else:
            chat.turn()
    assert not chat.session.status().recovering


@pytest.mark.rule("OVER-12", "THINK-4")
@pytest.mark.parametrize("kind", ["overflow", "thinking"])
def test_a_count_of_the_refused_request_itself_is_no_answer(kind: str):
    chat = grown()
    request = chat.turn()
    if kind == "overflow":
        request.report_failure("overflow")
    else:
        request.report_error(400, "Invalid `signature` in `thinking` block. It is bound to a different conversation.")
    use(request, 50_000)
    assert (chat.state.overflow is not None, bool(chat.state.unbound)) == (kind == "overflow", kind == "thinking")


@pytest.mark.rule("OVER-12")
def test_an_overflow_of_a_request_that_was_overtaken_arms_nothing():
    chat = grown()
    first = chat.turn()
    use(chat.turn(), 50_000)
    first.report_failure("overflow", limit=100_000, used=101_000)
    assert not chat.session.status().recovering
    assert chat.session.status().learnt_limit == 100_000


# ----------------------------------------------------------------- what is sent


@pytest.mark.rule("OVER-13", "ACC-16")
def test_by_the_providers_figures_only_what_fits_is_sent():
    """OV-14: success is judged on the next request, in the provider's own count."""
    chat = grown(tools=10)
    request = chat.turn()
    request.report_failure("overflow", limit=100_000, used=200_000)
    chat.session.reduce("2-3")  # a fifth of it: the request is smaller and does not fit
    said = refused(chat)
    assert "200,000" in said
    assert "100,000" in said
    assert "§4§" in said, "the largest part is named"
    chat.session.reduce("4-8")
    sent = chat.again()
    assert local(sent) * 200_000 // local(request) <= 100_000


@pytest.mark.rule("OVER-13")
def test_the_answer_asked_for_needs_its_room_too():
    chat = grown(name="fetch")
    request = chat.turn()
    used = local(request)
    body = f"input length and `max_tokens` exceed context limit: {used} + 8192 > {used + 100}, decrease input length"
    said = request.report_error(400, body)
    assert (said.kind, said.input, said.output) == ("overflow", used, 8_192)
    assert chat.state.overflow.used == used
    assert chat.state.ratios[chat.state.model] == 1_000, "the answer is no part of what our count is held against"
    sent = chat.again()
    assert local(sent) + 8_192 <= used + 100


@pytest.mark.rule("OVER-13")
@pytest.mark.parametrize(("kept", "sends"), [(89, True), (95, False)])
def test_without_figures_a_tenth_must_go(kept: int, sends: bool):
    chat = Chat(policy={"protected_tokens": 0})
    chat.say(user("start"))
    chat.tool("small", words(1_000 * (100 - kept) // 10))
    chat.say(assistant("x"), user(words(100 * kept)))
    chat.turn().report_failure("overflow")
    chat.session.reduce("2")
    if sends:
        assert chat.again().level == "soft+"
    else:
        refused(chat)


@pytest.mark.rule("OVER-13", "OVER-15")
def test_an_input_that_fits_without_its_answer_is_not_sent():
    """Input and answer were too much together: a little less input is still too much, also after two refusals."""
    chat = Chat()
    chat.say(user(words(30_000)), assistant("a"), user("b " + words(20)))
    request = chat.turn()
    used = local(request)
    text = f"input length and `max_tokens` exceed context limit: {used} + 8192 > {used + 100}, decrease input length"
    assert request.report_error(400, text).overflow
    chat.messages[2] = user("b")
    for number in range(4):
        refused(chat)
        chat.messages += [assistant("x"), user(f"{number}")]
    assert chat.session.status().recovering


# --------------------------------------------------------------- no endless loop


@pytest.mark.rule("OVER-14")
def test_a_row_of_overflows_ends_with_a_word():
    """OV-02: each try was smaller and none was answered; the fourth is not made, and the reason is given."""
    chat = grown(tools=12)
    sizes = []
    request = chat.turn()
    for drop in ("2-3", "4-5", "6-7"):
        sizes.append(local(request))
        request.report_failure("overflow")
        chat.session.reduce(drop)
        if len(sizes) < 3:
            request = chat.again()
    assert sizes == sorted(sizes, reverse=True)
    assert "3 requests in a row" in refused(chat)
    for number in range(4):
        chat.messages += [assistant(f"a{number}"), user(f"b{number}")]
        refused(chat)
    assert len(events(chat.session, ev.OverflowReported)) == 3
    chat.session.reduce("8-13")
    sent = chat.again()
    assert local(sent) * 2 <= sizes[-1]
    use(sent, 4_000)
    assert chat.turn().level == "defer"
    assert differences(chat.engine) == []


@pytest.mark.rule("OVER-14", "REFUSE-6")
def test_the_same_request_again_is_the_same_refusal():
    chat = spoken()
    chat.turn().report_failure("overflow")
    refused(chat)
    before = fingerprint(chat.session)
    for _ in range(5):
        refused(chat)
    assert fingerprint(chat.session) == before


@pytest.mark.rule("OVER-15")
def test_after_two_refusals_what_no_figure_forbids_is_sent():
    """A provider may say overflow of a request that fits; a session of one open block would else be lost."""
    chat = spoken()
    chat.turn().report_failure("overflow")
    refused(chat)
    chat.messages += [assistant("x"), user("y")]
    refused(chat)
    chat.messages += [assistant("x"), user("z")]
    sent = chat.again()
    assert sent.level == "defer"
    assert chat.session.status().recovering, "only an answer ends it"
    use(sent, 3_100)
    assert not chat.session.status().recovering


@pytest.mark.rule("OVER-15")
def test_there_are_only_so_many_ways_out():
    """Refused again, the way out is taken twice; then nothing but half of it is sent."""
    chat = spoken()
    sent = 0
    request = chat.turn()
    for number in range(20):
        request.report_failure("overflow")
        for step in range(3):
            chat.messages += [assistant("x"), user(f"{number}.{step}")]
            try:
                request = chat.again()
            except foldlog.Refused:
                continue
            sent += 1
            break
        else:
            break
    assert sent == 2
    assert "in a row" in refused(chat)


@pytest.mark.rule("OVER-15")
def test_what_a_limit_forbids_is_never_sent():
    chat = spoken()
    chat.turn().report_failure("overflow", limit=2_000, used=3_010)
    for number in range(6):
        chat.messages += [assistant("x"), user(f"{number}")]
        refused(chat)


# ------------------------------------------------------------ nothing to recover from


@pytest.mark.rule("OVER-16", "ACC-16")
@pytest.mark.parametrize(
    ("limit", "used", "quiet"), [(100_000, 120_000, True), (None, None, False), (None, 120_000, False)]
)
def test_a_host_that_made_room_itself_is_left_alone(limit: int | None, used: int | None, quiet: bool):
    """Trusted disarm: below 0.8 of the told limit in the provider's own count. A catalogue's limit disarms nothing."""
    chat = grown(tools=8)
    chat.turn().report_failure("overflow", limit=limit, used=used)
    chat.messages = [chat.messages[0], *chat.messages[-8:]]
    decision = chat.again()._produced.event.decision
    assert decision.source == ("estimated" if quiet else "synthetic")


@pytest.mark.rule("OVER-16", "OVER-13")
@pytest.mark.parametrize("share", [76, 79, 81, 95])
def test_room_for_the_answer_counts_before_a_session_is_left_alone(share: int):
    """Refused for input and answer together: what can go goes, however much of the window the input alone leaves."""
    chat = Chat(lanes=True, policy={"protected_tokens": 0, "cache_ttl": "never"})
    chat.say(user("start"))
    for number in range(30):
        request = chat.tool(f"t{number}", words(900) + str(number), n=number)
    body = f"input length and `max_tokens` exceed context limit: {share}000 + 32000 > 100000, decrease input length"
    assert request.report_error(400, body).kind == "overflow"
    sent = chat.again()
    assert [did.lane for did in chat.last().decision.lanes if did.landed] == ["emergency"]
    assert local(sent) * share // local(request) + 32 <= 100


@pytest.mark.rule("OVER-17")
def test_an_overflow_of_the_output_allowance_is_no_reason_to_rebuild():
    """OV-18: the limit is learnt, history stays as it is."""
    chat = spoken(context_limit=1_000_000)
    parts = "(10535 in the messages, 131072 in the completion)"
    text = f"maximum context length is 131072 tokens. However, you requested 141607 tokens {parts}."
    said = chat.turn().report_error(400, text)
    assert said.output_driven
    assert "output allowance" in said.what_to_do
    status = chat.session.status()
    assert (status.recovering, status.learnt_limit) == (False, 131_072)
    sent = chat.again()
    assert sent.level == "defer"
    assert chat.turn().level == "defer"
    (event,) = events(chat.session, ev.OverflowReported)
    assert (event.kind, event.input, event.output) == ("output_driven", 10_535, 131_072)


@pytest.mark.rule("OVER-10", "OVER-12")
def test_another_models_overflow_arms_nothing():
    """OV-12: the router's small model refused; the main one has room."""
    chat = grown(model="large")
    chat.turn().report_error(
        400, "input token count (134123) exceeds the maximum number of tokens allowed (131072)", model="small"
    )
    status = chat.session.status()
    assert (status.recovering, status.learnt_limit, status.window) == (False, 0, 200_000)
    assert chat.turn().level == "defer"


@pytest.mark.rule("OVER-18", "T39")
@pytest.mark.parametrize(
    ("body", "window"),
    [
        ("prompt token count of 135099 exceeds the limit of 128000", 128_000),
        (
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 135099 tokens.",
            96_000,
        ),
    ],
)
def test_a_limit_of_the_prompt_alone_is_not_reserved_from_again(body: str, window: int):
    """T39: a window of prompt and answer gives up the answer's room, a limit of the prompt has done so already."""
    chat = grown(context_limit=400_000, output_limit=32_000)
    chat.turn().report_error(400, body)
    assert chat.session.status().window == window
    chat.reopen(context_limit=None)
    assert chat.session.status().window_known


@pytest.mark.rule("OVER-19", "ACC-16")
def test_a_model_with_a_smaller_window_starts_at_95_and_refuses_nothing():
    chat = grown(model="large", context_limit=1_000_000)
    use(chat.turn(), 300_000)
    chat.reopen(model="small", context_limit=200_000)
    sent = chat.turn()
    decision = sent._produced.event.decision
    assert (decision.source, decision.tokens) == ("proactive", 300_000)
    assert decision.percent >= EMERGENCY
    assert "model_change" in sent.reasons
    assert chat.session.status().learnt_limit == 0
    assert chat.turn().level in ("defer", "soft+")


@pytest.mark.rule("REFUSE-3", "PERM-14", "EMERG-5")
@pytest.mark.parametrize("size", [400, 500, 600])
def test_what_was_refused_goes_out_smaller_by_little_too(size: int):
    """A second rebuild in an episode has to free 2% of the window; not where the provider refused the request."""
    chat = Chat(lanes=True, context_limit=40_000, policy={"protected_tokens": 0})
    chat.say(user("start"))
    for number in range(6):
        chat.tool(f"t{number}", words(40), name="x")
    use(chat.again(), 28_000)
    chat.session.reduce("2-4")
    chat.session.flush()
    first = chat.turn()
    assert first.level == "soft+"
    use(first, 28_000)
    request = chat.tool("more", words(size), name="x")
    assert (request.level, chat.state.episode <= chat.state.rebuilt) == ("defer", True)
    request.report_failure("overflow", limit=40_000, used=40_100)
    request = chat.turn()
    assert request.level == "soft+"
    landed = sum(did.tokens for did in request._produced.event.decision.lanes if did.landed)
    assert 0 < landed < chat.session.status().window * 2 // 100


@pytest.mark.rule("OVER-19", "PROP-5")
@pytest.mark.parametrize("told", [False, True])
def test_nor_where_the_model_before_never_told_what_it_counted(told: bool):
    """Our own count of its request is an estimate: that is the reason of no alarm, whatever it says."""
    chat = grown(12, model="large", context_limit=1_000_000)
    assert chat.state.last.tokens > 20_000
    if told:  # by an earlier request is enough: the ratio is known, the newest is reckoned by it
        use(chat.turn(), chat.state.last.tokens)
        chat.session.report_cache_loss("said so")
        chat.turn()
        assert chat.state.usage is None
    chat.reopen(model="small", context_limit=20_000)
    decision = chat.turn()._produced.event.decision
    assert decision.source == ("proactive" if told else "estimated")


@pytest.mark.rule("OVER-19")
@pytest.mark.parametrize(("mode", "limit"), [("primary", 400_000), ("primary", None), ("subagent", 200_000)])
def test_no_such_thing_where_it_fits_is_unknown_or_nobody_waits(mode: str, limit: int | None):
    chat = grown(model="large", context_limit=1_000_000, mode=mode)
    use(chat.turn(), 300_000)
    chat.reopen(model="small", context_limit=limit)
    sent = chat.turn()
    assert sent._produced.event.decision.source == "estimated", "nothing is known of it but its size"
    assert sent.level == "hard"


@pytest.mark.rule("OVER-22")
def test_a_subagent_is_refused_what_is_proven_and_has_no_way_out():
    """Rulings: what its own provider proved does not fit is not sent; it waits for nothing, its parent is told."""
    chat = spoken(mode="subagent")
    chat.turn().report_failure("overflow")
    for number in range(5):
        chat.messages += [assistant("x"), user(f"{number}")]
        assert "does not fit" in refused(chat)
    chat.messages = chat.messages[-1:]
    assert chat.again().level in ("defer", "hard")


# ---------------------------------------------------------------------- restarts


def a_row(make: type[Chat]) -> Chat:
    chat = grown(tools=12, make=make)
    request = chat.turn()
    for drop in ("2-3", "4-5", "6-7"):
        request.report_failure("overflow")
        chat.session.reduce(drop)
        try:
            request = chat.again()
        except foldlog.Refused:
            pass
    chat.session.reduce("8-13")
    use(chat.again(), 3_000)
    chat.turn()
    return chat


def a_way_out(make: type[Chat]) -> Chat:
    chat = spoken(make=make)
    chat.turn().report_failure("overflow")
    for number in range(3):
        chat.messages += [assistant("x"), user(f"{number}")]
        try:
            chat.again()
        except foldlog.Refused:
            pass
    return chat


def a_smaller_model(make: type[Chat]) -> Chat:
    chat = grown(make=make, model="large", context_limit=1_000_000)
    use(chat.turn(), 300_000)
    chat.reopen(model="small", context_limit=200_000)
    chat.turn()
    chat.turn()
    return chat


@pytest.mark.rule("OVER-23")
@pytest.mark.parametrize("play", [a_row, a_way_out, a_smaller_model])
def test_a_restart_at_any_moment_changes_nothing(play: Callable[[type[Chat]], Chat]):
    assert told(play(Forgetful)) == told(play(Chat))


# ------------------------------------------------- the original's tests, restated


def proven(**how: Any) -> Chat:
    chat = spoken(**how)
    request = chat.turn()
    request.report_failure("overflow", limit=local(request) - 100, used=local(request))
    return chat


@pytest.mark.rule("OVER-13", "OVER-16", "OVER-19", "REFUSE-3")
@pytest.mark.parametrize(
    ("case", "sends"),
    [
        ("proven, nothing made smaller", False), ("proven, made to fit", True), ("a smaller model", True),
        ("below 95 by usage", True), ("the host made room", True), ("a catalogue's limit alone", False),
        ("no figures to trust", False),
    ],
)  # fmt: skip
def test_when_a_full_session_is_refused(case: str, sends: bool):
    """Acceptance property 16: what the provider proved is refused, and nothing else is."""
    if case == "a smaller model":
        chat = grown(model="large", context_limit=1_000_000)
        use(chat.turn(), 300_000)
        chat.reopen(model="small", context_limit=200_000)
    elif case == "below 95 by usage":
        chat = spoken()
        use(chat.turn(), 180_000)
    elif case == "a catalogue's limit alone":
        chat = spoken(context_limit=200_000)
        chat.turn().report_failure("overflow", used=210_000)
        chat.messages.pop(1)  # smaller, yet no tenth, and the limit is only the catalogue's
        chat.messages.pop(1)
    elif case == "no figures to trust":
        chat = spoken()
        chat.turn().report_failure("overflow")
    else:
        chat = proven() if case != "proven, made to fit" else grown(name="fetch")
        if case == "proven, made to fit":
            request = chat.turn()
            request.report_failure("overflow", limit=local(request) * 9 // 10, used=local(request))
        if case == "the host made room":
            chat.messages = [user("start"), *chat.messages[1:]]
    if sends:
        assert chat.again().level in ("defer", "soft+", "hard")
    else:
        refused(chat)

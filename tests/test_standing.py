"""How a session stands: one definition and the same words in the API, on the command line and in the hosts (API-17)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

import foldlog
from foldlog import standing
from foldlog.adapters.config import Config
from foldlog.adapters.hosts import shapes
from foldlog.adapters.hosts.desk import Caller, Desk
from support.past import summarise, talk
from support.program import ok, value
from support.talk import START, Chat, use, user, words

CLOCK = "You work.\nThe date is {}.\nBe brief."


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'log.db'}"


@pytest.fixture
def host(url: str) -> Chat:
    return Chat(foldlog.Engine.open(url, summarizer=None))


def told(host: Chat, url: str) -> str:
    """Return what a person reads of a session, which is the same wherever it is asked for."""
    desk = Desk(Config(), lambda _: host.engine)
    hosts: Any = desk.status(Caller("api", lambda _: None), shapes.Of("chat"))["text"]
    words = standing.words(host.session.status())
    assert hosts == words
    assert ok("status", "chat", db=url).startswith(words)
    figures: Any = value("status", "chat", db=url)
    assert figures["window_source"] == host.session.status().window_source
    return words


@pytest.mark.rule("API-17", "PROP-5")
def test_what_is_unknown_is_no_number(host: Chat, url: str):
    found = host.session.status()
    assert (found.usage_tokens, found.usage_percent, found.cache_left_ms) == (-1, -1, standing.NEVER)
    assert standing.words(found).startswith("an unknown number of tokens in 0 messages")
    host.say(user("start"))
    host.reopen(model="another")
    use(host.turn(), 5_000)
    assert told(host, url).startswith("5,000 tokens (2% of 200,000)")


@pytest.mark.rule("API-17")
@pytest.mark.parametrize(
    ("wait", "ttl", "left", "said"),
    [
        (0, "5m", 300_000, "lives for 5m more"), (40, "5m", 260_000, "lives for 4m 20s more"),
        (300, "5m", 0, "expired"), (4_000, "5m", 0, "expired"), (10, "1h", 3_590_000, "lives for 59m 50s more"),
        (9_999_999, "never", standing.FOREVER, "never expires"),
    ],
)  # fmt: skip
def test_the_last_answer_and_how_long_its_cache_lives(wait: float, ttl: str, left: int, said: str):
    host = Chat(policy={"cache_ttl": ttl})
    request = host.say(user("start"))
    assert "last answer: never; nothing is cached yet" in standing.words(host.session.status())
    use(request, 5_000)
    answered = host.state.response_now
    host.session.core.clock = lambda: answered + round(wait * 1_000)
    found = host.session.status()
    assert (found.last_answer_ms, found.cache_left_ms) == (answered, left)
    assert f"UTC; the provider's cache {said}" in standing.words(found)
    assert answered == (START + 10) * 1_000


@pytest.mark.rule("API-17", "WINDOW-3")
@pytest.mark.parametrize(
    ("model", "window", "source", "said"),
    [
        ("claude-sonnet-4-5", 200_000, "catalogue", "list of models"),
        ("claude-sonnet-4-5", 1_000_000, "catalogue", "list of models"),
        ("claude-sonnet-4-5", 150_000, "configured", "the host or the settings"),
        ("mine", 200_000, "configured", "the host or the settings"),
        ("mine", None, "assumed", "assumed: nobody told it"),
    ],
)
def test_where_the_window_is_known_from(host: Chat, url: str, model: str, window: int | None, source: str, said: str):
    host.reopen(model=model, context_limit=window, output_limit=8_000)
    request = host.say(user("start"))
    found = host.session.status()
    assert (found.window_source, found.window) == (source, (window or 128_000) - 8_000)
    assert found.window_hard == (window or 128_000) - 4_096
    assert said in told(host, url)
    request.report_failure("overflow", limit=100_000, used=120_000)
    found = host.session.status()
    assert (found.window_source, found.learnt_limit) == ("learnt", 100_000)
    assert "as the provider told" in told(host, url)


@pytest.mark.rule("API-17")
def test_the_last_refusal_is_told_with_its_code(host: Chat, url: str):
    host.reopen(context_limit=20_000)
    with pytest.raises(foldlog.Refused):
        host.say(user(words(40_000)))
    found = host.session.status()
    assert (found.refused_code, found.refused_pass) == ("UNMANAGED_OVER_WINDOW", 1)
    assert "last not sent: request 1, 2025-06-15 15:06:50 UTC, UNMANAGED_OVER_WINDOW: this session is" in told(
        host, url
    )
    host.messages = [user("short")]
    host.again()
    assert host.session.status().refused_pass == 1
    assert host.session.fork("child").status().refused_code == ""


@pytest.mark.rule("API-17", "HIST-28")
@pytest.mark.parametrize("runs", [1, 2])
def test_summaries_that_failed_are_told_with_the_last_reason(url: str, runs: int):
    """Nobody has to wonder why a session with a wrong key is never summarised; once one comes, it is over."""

    def broken(_: Any) -> Any:
        raise RuntimeError("no such key")

    host = Chat(foldlog.Engine.open(url, summarizer=None), context_limit=20_000)
    talk(host, 6)
    assert "no summary" not in told(host, url)
    with capture_logs() as logs:
        for _ in range(runs):
            summarise(host, 6, broken)
    said = "no summary this time: the summariser broke: RuntimeError: no such key"
    assert [one["event"] for one in logs] == [said] * runs
    found = host.session.status()
    assert (found.summary_failures, found.summary_error) == (runs, "the summariser broke: RuntimeError: no such key")
    last = "last run" if runs == 1 else "last 2 runs"
    assert f"no summary: the {last} failed: the summariser broke: RuntimeError: no such key" in told(host, url)
    summarise(host, 6)
    assert (host.session.status().summary_failures, host.session.status().summary_error) == (0, "")


@pytest.mark.rule("API-17")
def test_where_the_window_is_the_hosts_nothing_is_said_to_leave(url: str):
    host = Chat(foldlog.Engine.open(url, summarizer=None), policy={"compaction": False})
    use(host.say(user("start")), 5_000)
    assert not host.session.status().managed
    assert "nothing leaves: the policy leaves the window to the host" in told(host, url)
    assert "content leaves" not in told(host, url)


@pytest.mark.rule("API-17", "OVER-12")
def test_a_session_whose_request_was_refused_counts_as_full_and_says_why(host: Chat, url: str):
    request = host.say(user("start"))
    request.report_failure("overflow")
    said = told(host, url)
    assert re.match(r"\d+ tokens \(the provider refused them: counts as 95% of 200,000\) in 1 message", said)
    with pytest.raises(foldlog.Refused, match=r"The largest part is §1§ with about 1 token\. "):
        host.again()


@pytest.mark.rule("API-17")
def test_what_is_counted_has_its_noun_in_the_right_number(host: Chat, url: str):
    host.say(user("start"))
    assert " in 1 message after 1 request; 0 parts dropped, 0 marked; " in told(host, url)
    host.tool("t", words(100))
    host.session.reduce("2")
    host.session.flush()
    host.turn()
    assert " in 5 messages after 3 requests; 1 part dropped, 0 marked; " in told(host, url)


@pytest.mark.rule("API-17", "PERM-5")
@pytest.mark.parametrize(
    ("marked", "compaction", "said"),
    [
        ("", True, "nothing is marked; other cleanup is made with the next request"),
        ("2", True, "what is marked leaves with the next request: 1 part"),
        ("2-3", True, "what is marked leaves with the next request: 2 parts"),
        ("2-3", False, "nothing leaves: the policy leaves the window to the host"),
    ],
)
def test_a_flush_says_what_it_does(url: str, marked: str, compaction: bool, said: str):
    host = Chat(foldlog.Engine.open(url, summarizer=None), policy={"compaction": compaction})
    host.say(user("start"))
    for number in range(2):
        host.tool(f"t{number}", words(100))
    if marked:
        host.session.reduce(marked)
    assert ok("flush", "chat", db=url) == f"api/chat: {said}\n"
    desk = Desk(Config(), lambda _: host.engine)
    assert desk.flush(Caller("api", lambda _: None), shapes.Of("chat")) == {"text": said}


@pytest.mark.rule("CLI-22")
def test_a_time_is_not_called_a_number_of_milliseconds(host: Chat, url: str):
    use(host.say(user("start")), 5_000)
    lines = ok("status", "chat", db=url).splitlines()
    assert not [line for line in lines if " ms " in line]
    assert [line.split()[-1] for line in lines if line.startswith("cache ttl ")] == ["5m"]


# ------------------------------------------------ a system text that changes at each request


@pytest.mark.rule("FOLD-8", "CB-09")
@pytest.mark.parametrize(
    ("texts", "line", "text"),
    [
        ([CLOCK.format(f"12:00:0{n}") for n in range(4)], 2, "The date is 12:00:03."),
        ([CLOCK.format(f"12:00:0{n}") for n in range(3)], 0, ""),
        ([CLOCK.format(f"12:00:0{min(n, 3)}") for n in range(5)], 0, ""),
        ([[{"type": "text", "text": "a"}, {"type": "text", "text": f"b\nc {n}"}] for n in range(4)], 3, "c 3"),
        (["x" * 300 + f"{n}" + "y" * 300 for n in range(4)], 1, "…" + "x" * 40 + "3" + "y" * 39 + "…"),
        ([f"You work.{' more' * n}" for n in range(4)], 1, "You work. more more more"),
    ],
    ids=["clock", "too few", "over", "blocks", "long", "grows"],
)
def test_a_text_that_changes_at_each_request_is_told_with_its_line(
    host: Chat, url: str, texts: list[Any], line: int, text: str
):
    for one in texts:
        host.turn(system=one)
    host.session.core._hot = None
    found = host.session.status()
    assert (found.system_changes, found.system_line, found.system_text) == (line > 0, line, text)
    shown = ok("passes", "chat", db=url)
    assert (f'its line {line} changes ("{text}")' in told(host, url)) == (line > 0)
    assert ("paid for anew each time" in shown) == (line > 0)
    assert not host.session.fork("child").status().system_changes

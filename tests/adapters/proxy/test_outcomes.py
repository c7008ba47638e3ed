"""What becomes of a request: each way it can end leaves the session consistent."""

from __future__ import annotations

from foldlog.domain import events as ev
from support.proxy import Provider, Proxy, assistant, events, streamed, user

ONE = [user("hello")]
TWO = [*ONE, assistant("ok"), user("go on")]


def test_an_answer_goes_through_untouched_and_its_usage_is_recorded(provider: Provider, proxy: Proxy) -> None:
    pieces = events(input_tokens=7, cache_read_input_tokens=100, cache_creation_input_tokens=3, id="msg_1")
    provider.script = [streamed(pieces)]
    answer = proxy.ask(ONE)
    assert answer.status_code == 200
    assert answer.content == b"".join(pieces)
    assert answer.headers["request-id"] == "req_1"
    (usage,) = [event for event in proxy.events() if isinstance(event, ev.UsageReported)]
    assert (usage.number, usage.input, usage.cache_read, usage.cache_write, usage.output) == (1, 7, 100, 3, 5)
    sent = provider.seen[0].json
    assert sent["messages"][-1]["content"][-1]["text"].endswith("hello")
    assert proxy.ask(TWO).status_code == 200
    passes = [event for event in proxy.events() if isinstance(event, ev.Pass)]
    assert [type(one).__name__ for one in passes] == ["BaselineFolded", "PassDeferred"]

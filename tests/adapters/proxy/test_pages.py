"""The live feed, and the agent's tools that reach the session they were called in."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import weakref
from typing import Any

import httpx
import pytest

from foldlog.adapters.proxy.door import Track
from foldlog.adapters.proxy.feed import BEHIND, KEPT, Feed, Moment
from foldlog.domain import events as ev
from foldlog.domain.state import State
from support.proxy import TOKEN, Provider, Proxy, assistant, events, said, streamed, user
from support.talk import Chat, words

ONE = [user("hello")]


def call(id: str, name: str = "mcp__foldlog__ctx_reduce", **arguments: Any) -> tuple[str, str, Any]:
    return (id, name, arguments)


def test_the_feed_tells_each_request_as_it_ends(provider: Provider, proxy: Proxy) -> None:
    """PROXY-47."""
    provider.usual = said(input_tokens=5, cache_read_input_tokens=9_000)
    proxy.ask(ONE)
    got: list[dict[str, Any]] = []

    def watch() -> None:
        headers = {"authorization": f"Bearer {TOKEN}"}
        with httpx.stream("GET", proxy.url + "/foldlog/events", headers=headers, timeout=20) as feed:
            assert feed.headers["content-type"].startswith("text/event-stream")
            for line in feed.iter_lines():
                if line.startswith("data: "):
                    got.append(json.loads(line[6:]))
                if len(got) == 2:
                    return

    watcher = threading.Thread(target=watch)
    watcher.start()
    proxy.ask([*ONE, assistant("ok"), user("on")])
    watcher.join(10)
    first, second = got
    assert (first["session"], first["pass"], first["level"], first["reasons"]) == (
        "claude-code/s1", 1, "hard", ["first_render"],
    )  # fmt: skip
    assert (second["pass"], second["level"], second["input"], second["cached"]) == (2, "defer", 5, 9_000)
    assert second["outcome"] == "answered"
    assert "hello" not in json.dumps(got)


@pytest.mark.rule("FOLD-8")
def test_whoever_watches_is_told_the_line_and_not_what_it_holds(provider: Provider, proxy: Proxy) -> None:
    messages = list(ONE)
    for n in range(5):
        proxy.ask(messages, system=f"You work.\nIt is 12:00:0{n}.\nBe brief.")
        messages += [assistant("ok"), user("on")]
    notes = [moment["note"] for moment in proxy.moments()]
    said = "the system text changes with each request, in its line 2; foldlog status shows it"
    assert notes == ["", "", "", said, said]
    assert "12:00" not in json.dumps(proxy.moments())


def test_a_lost_cache_is_told_with_its_cause(provider: Provider, proxy: Proxy) -> None:
    """PROXY-47."""
    provider.script = [said(input_tokens=0, cache_creation_input_tokens=20_000), said(input_tokens=20_100)]
    proxy.ask(ONE)
    proxy.ask([*ONE, assistant("ok"), user("on")])
    first, second = proxy.moments()
    assert (first["lost"], first["cause"]) == (0, "")
    assert (second["lost"], second["cause"]) == (20_000, "the provider")


def test_what_the_whole_history_takes_is_counted_once_and_anew_behind_a_rewind(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the feed calls saved is less than this."""

    def track() -> Track:
        return Track(asyncio.Lock(), set(), asyncio.Lock())

    def counted(one: Track) -> int:
        return one.whole(chat.session.core.hot().state)

    chat, kept, looked = Chat(), track(), []
    chat.say(user(words(300)))
    for _ in range(3):
        chat.turn(words(100))
    before, real = counted(kept), State.node
    chat.turn()
    monkeypatch.setattr(State, "node", lambda state, m: looked.append(m) or real(state, m))
    assert before < counted(kept) == counted(track())
    assert len(looked) == 2 + len(chat.session.core.hot().state.path)
    chat.messages = [*chat.messages[:-1], user(words(500, "other"))]
    chat.again()
    assert before < counted(kept) == counted(track())


def test_who_watches_slowly_misses_the_oldest_and_holds_nobody_up() -> None:
    """PROXY-47."""

    async def run() -> None:
        feed = Feed()
        for number in range(KEPT + 10):
            feed.tell(Moment(at=number))
        watching = feed.watch()
        first = await anext(watching)
        assert json.loads(first.partition(b"data: ")[2])["at"] == 10
        for number in range(BEHIND + 50):
            feed.tell(Moment(at=10_000 + number))
        second = await anext(watching)
        assert json.loads(second.partition(b"data: ")[2])["at"] == 10_050
        feed.close()
        rest = [line async for line in watching]
        assert json.loads(rest[-1].partition(b"data: ")[2])["at"] == 10_000 + BEHIND + 49
        assert [line async for line in feed.watch()]  # one who comes late still learns what was

    asyncio.run(run())


def drops(proxy: Proxy, session: str = "s1") -> list[Any]:
    return [event for event in proxy.events(f"claude-code/{session}") if isinstance(event, ev.DropsQueued)]


def tool(proxy: Proxy, name: str = "ctx_reduce", **given: Any) -> httpx.Response:
    return proxy.page(f"/foldlog/tools/{name}", json=given)


def test_a_call_reaches_its_session_by_its_id(provider: Provider, proxy: Proxy) -> None:
    """PROXY-48."""
    for name in ("s1", "s2"):
        provider.script = [said(calls=(call(f"toolu_{name}", drop="1"),))]
        proxy.ask(ONE, session=name)
    answer = tool(proxy, arguments={"drop": "1"}, tool_use_id="toolu_s2")
    assert answer.status_code == 200, answer.text
    assert answer.json()["session"] == "claude-code/s2"
    assert not drops(proxy, "s1")
    assert [event.tags for event in drops(proxy, "s2")] == [(1,)]
    assert tool(proxy, arguments={"drop": "1"}, tool_use_id="toolu_s2").json()["text"] == answer.json()["text"]
    assert len(drops(proxy, "s2")) == 1  # a repeated call is applied once


def test_else_by_the_one_call_that_went_out(provider: Provider, proxy: Proxy) -> None:
    """PROXY-48."""
    proxy.ask(ONE, session="s2")
    provider.script = [said(calls=(call("toolu_1", drop="1"),))]
    proxy.ask(ONE)
    assert tool(proxy, arguments={"drop": "1"}).json()["session"] == "claude-code/s1"
    assert drops(proxy)[0].cmd == "toolu_1"


def test_what_fits_two_sessions_is_an_error(provider: Provider, proxy: Proxy) -> None:
    """PROXY-48: never a guess."""
    for name in ("s1", "s2"):
        provider.script = [said(calls=(call(f"toolu_{name}", drop="1"),))]
        proxy.ask(ONE, session=name)
    proxy.door.pending.patience = 0.05
    answer = tool(proxy, arguments={"drop": "1"})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "UNKNOWN_SESSION"
    assert "claude-code/s1" in answer.json()["error"]["message"]
    assert tool(proxy, arguments={"drop": "1"}, session="s2").json()["session"] == "claude-code/s2"
    assert tool(proxy, arguments={"drop": "1"}, session="claude-code/s1").json()["session"] == "claude-code/s1"
    assert tool(proxy, arguments={"drop": "1"}, session="s9").status_code == 400


def test_a_call_is_over_when_its_session_asks_again(provider: Provider, proxy: Proxy) -> None:
    """PROXY-48."""
    provider.script = [said(calls=(call("toolu_1", drop="1"),))]
    proxy.ask(ONE)
    proxy.ask([*ONE, assistant("ok"), user("on")])
    proxy.door.pending.patience = 0.05
    assert tool(proxy, arguments={"drop": "1"}).status_code == 400
    assert tool(proxy, arguments={"drop": "1"}, tool_use_id="toolu_1").status_code == 200


def test_a_call_may_come_before_the_answer_that_holds_it(provider: Provider, proxy: Proxy) -> None:
    """PROXY-48: a client runs a tool while the answer still comes."""
    proxy.ask(ONE)
    got: list[httpx.Response] = []
    calling = threading.Thread(
        target=lambda: got.append(tool(proxy, arguments={"drop": "1"}, tool_use_id="toolu_late"))
    )
    calling.start()
    provider.script = [said(calls=(call("toolu_late", drop="1"),))]
    proxy.ask([*ONE, assistant("ok"), user("on")])
    calling.join(10)
    assert got[0].status_code == 200


def test_a_call_is_known_while_its_answer_still_comes(provider: Provider, proxy: Proxy) -> None:
    """PROXY-48."""
    gate = threading.Event()
    pieces = events(calls=(call("toolu_1", drop="1"),))
    provider.script = [said(), streamed([b"".join(pieces[:-2]), *pieces[-2:]], wait=gate)]
    proxy.ask(ONE)
    proxy.door.pending.patience = 5
    asking = threading.Thread(target=lambda: proxy.ask([*ONE, assistant("ok"), user("on")]))
    asking.start()
    answer = tool(proxy, arguments={"drop": "1"}, tool_use_id="toolu_1")
    gate.set()
    asking.join(10)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("name", "given", "status"),
    [
        ("ctx_fly", {"arguments": {}}, 404),
        ("ctx_reduce", {"arguments": {"drop": "x"}}, 400),
        ("ctx_reduce", {"arguments": {"drop": "999"}}, 400),
        ("ctx_reduce", {"arguments": [1]}, 400),
        ("ctx_expand", {"arguments": {}}, 400),
        ("ctx_reduce", {"arguments": {"drop": "1"}, "session": 7}, 400),
    ],
)
def test_what_a_call_cannot_be_is_said(provider: Provider, proxy: Proxy, name: str, given: Any, status: int) -> None:
    """PROXY-48."""
    proxy.ask(ONE)
    proxy.door.pending.patience = 0.05
    answer = tool(proxy, name, **{"session": "s1", **given})
    assert answer.status_code == status
    assert answer.json()["error"]["message"]
    assert not drops(proxy)


def test_an_original_is_expanded(provider: Provider, proxy: Proxy) -> None:
    """PROXY-48."""
    proxy.ask(ONE)
    assert "hello" in tool(proxy, "ctx_expand", arguments={"tag": "1"}, session="s1").json()["text"]


def test_a_pass_that_waits_for_a_summary_says_so(
    provider: Provider, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROXY-47."""
    from foldlog.adapters.proxy.sessions import Sessions

    real = Sessions.prepare

    def waiting(self: Any, admitted: Any, waiting: Any = None) -> Any:
        waiting("waiting for a summary")
        return real(self, admitted, waiting)

    monkeypatch.setattr(Sessions, "prepare", waiting)
    proxy.ask(ONE)
    first, second = proxy.moments()
    assert (first["level"], first["session"], first["note"]) == ("waiting", "claude-code/s1", "waiting for a summary")
    assert second["level"] == "hard"


def test_a_session_that_was_put_away_is_reached_too(provider: Provider, proxy: Proxy) -> None:
    """PROXY-46, PROXY-48: what waits for a tool holds no session in memory."""
    provider.script = [said(calls=(call("toolu_1", drop="1"),))]
    proxy.ask(ONE)
    proxy.settle()
    registry = proxy.door.gate.ready
    (core,) = [weakref.ref(one.session.core) for one in registry.all()]
    registry._limit = 0
    proxy.ask(ONE, session="s2")
    proxy.settle()
    assert not registry.all()
    assert not proxy.door.gate._engine._cores
    gc.collect()
    assert core() is None
    assert tool(proxy, arguments={"drop": "1"}, tool_use_id="toolu_1").status_code == 200
    assert drops(proxy)[0].cmd == "toolu_1"
    assert not proxy.door.gate._engine._cores

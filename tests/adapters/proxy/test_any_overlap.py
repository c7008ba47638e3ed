"""Clients at once, whatever they and the provider do to each other: each request is the log's, each answer its own.

The choices are those of a seed; how threads and answers then fall is the machine's.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from checker.base import broken_rules
from structlog.testing import capture_logs

import foldlog
from foldlog.adapters.config import Config
from foldlog.adapters.historian import Historian
from foldlog.adapters.models.summarizers import Extractive
from foldlog.adapters.models.tokens import ENCODING, tokenizer
from foldlog.adapters.models.windows import Limits
from foldlog.adapters.proxy.app import close, make_app
from foldlog.api import wall_clock
from foldlog.domain import events as ev
from foldlog.storage.stores import open_store
from support.crowd import KEY, Ask, Provider, Sent, Step, output
from support.proxy import AGENT
from support.three_wires import MEMBERS, answer, broken, function, prompt, unmarked

WORD = re.compile(r"w\d+of[a-z\d]+")
ENDS = ("whole",) * 12 + ("json", "hangs", "cut", "cut", "error", "full", "unread", "refused", "refused", "too_long")
MOVES = ("on",) * 5 + ("copies", "copies", "again", "steer", "steer", "leaves", "leaves", "beside", "agents", "anew")
CUT = ("cut", "hangs")
HARMLESS = ("the store is closed", "no summary this time")
"""What a summary says that was under way when the proxy ended, or found the store busy: the next look makes it."""
Where = tuple[str, int]
"""A session and the number of a pass."""


class Crowd:
    """Proxies over one store, the provider, and what clients asked."""

    def __init__(self, seed: int, url: str, proxies: int) -> None:
        self.random, self.words = Random(seed), 0
        self.provider = Provider(self.random)
        self.asked: list[tuple[Agent, Ask, dict[str, Any]]] = []
        self.apps = [self.proxy(url) for _ in range(proxies)]

    def proxy(self, url: str) -> Any:
        summaries = Historian(Extractive(tokenizer()), tokenizer(), inline=self.random.random() < 0.5)
        engine = foldlog.Engine(open_store(url), tokenizer(), ENCODING, wall_clock, summaries)
        there = dict.fromkeys(("anthropic", "openai", "chatgpt"), "http://provider")
        config = Config(upstreams=there, models={"m": Limits(context=16_000)})
        app = make_app(config, engine, httpx.AsyncClient(transport=self.provider))
        app.state.engine = engine
        return app

    def say(self, count: int, name: str) -> str:
        """Words nobody has said before."""
        self.words += count
        return " ".join(f"w{number}of{name}" for number in range(self.words - count, self.words))


class Agent:
    """One conversation. ``agent``: it is a subagent of the session; ``previous``: it sends only what is new."""

    def __init__(self, crowd: Crowd, wire: str, name: str, *, named: bool, agent: str = "") -> None:
        self.crowd, self.wire, self.name, self.named, self.agent = crowd, wire, name, named, agent
        self.previous = wire == "responses" and crowd.random.random() < 0.5
        self.begin()

    def begin(self) -> None:
        self.messages = [prompt(self.wire, "hello " + self.crowd.say(1, self.name))]
        self.behind, self.known = "", 0
        self.held: dict[str, list[Any]] = {}

    def step(self, end: str = "") -> Step:
        random, crowd = self.crowd.random, self.crowd
        said = crowd.say(2, self.name)
        calls = tuple(f"call-{said.split()[0]}-{n}" for n in range(random.choice((0, 1, 1, 2))))
        return Step(end or random.choice(ENDS), said, calls, random.randrange(900), random.choice((429, 500, 529)))

    def body(self, messages: list[Any], **members: Any) -> dict[str, Any]:
        made = {"model": "m", "stream": True, "tools": [function(self.wire)], MEMBERS[self.wire]: messages}
        if self.wire == "openai":
            made["messages"] = [{"role": "system", "content": "Be brief."}, *messages]
        else:
            made |= {"system": "Be brief.", "max_tokens": 99} if self.wire == "anthropic" else {"instructions": "Be."}
        return {**made, **members}

    def ask(self, *, steps: list[Step] | None = None, leaves: int = 0, messages: Any = None, **members: Any) -> Ask:
        crowd = self.crowd
        key = f"{self.name}.{len(crowd.asked)}"
        crowd.provider.scripts[key] = self.wire, steps or [self.step(), self.step()]
        headers = {"host": "127.0.0.1:80", "user-agent": "curl/8", KEY: key}
        if self.named:
            headers |= {"x-session-id": self.name}
        if self.agent:
            headers |= {"x-claude-code-agent-id": self.agent}
        if self.wire == "anthropic" and self.named:
            headers |= {"user-agent": AGENT}
        whole = self.body(messages or self.messages, **members)
        sent = whole
        if self.previous and self.behind and messages is None:
            sent = self.body(self.messages[self.known :], previous_response_id=self.behind, **members)
        one = Ask(crowd.random.choice(crowd.apps), self.wire, headers, sent, leaves)
        crowd.asked.append((self, one, whole))
        self.held[key] = self.messages
        return one

    def taken(self, one: Ask) -> bool:
        """Go on behind an answer, where it came whole."""
        sent = [sent for sent in self.crowd.provider.sent if sent.key == one.key]
        if one.status == 400 and b"foldlog" in one.got:  # it does not fit any more, or the other proxy had the answer
            self.begin()
            return True
        if not sent or one.left or one.status != 200 or sent[-1].step.end not in ("whole", "json"):
            return False
        step, messages = sent[-1].step, self.held[one.key]
        out = self.crowd.say(self.crowd.random.choice((3, 20, 100, 400)), self.name)
        made = answer(self.wire, step.said, list(step.calls), out, "go on " + out)
        self.behind, self.known = sent[-1].id, len(messages) + len(output(self.wire, step))
        self.messages = [*messages, *made]
        return True

    async def move(self, kind: str) -> None:
        random, provider = self.crowd.random, self.crowd.provider
        asked: list[Ask] = []
        if kind == "agents" and self.wire == "anthropic" and self.named and not self.agent:
            named = [self.crowd.say(1, self.name) for _ in range(2)]
            beside = [Agent(self.crowd, self.wire, self.name, named=True, agent=name) for name in named]
            await asyncio.gather(*(one.play(2) for one in [*beside, self]))
        elif kind == "beside" and self.wire != "openai":
            words = {"system" if self.wire == "anthropic" else "instructions": "Generate a short title"}
            title = [prompt(self.wire, "a title for " + self.crowd.say(1, "title"))]
            asked.append(self.ask(messages=title, tools=[], steps=[self.step("whole")], **words))
        elif kind == "copies":
            asked += [self.ask() for _ in range(random.choice((1, 2)))]
        elif kind == "again":
            asked.append(self.ask())
            await provider.pause()
            asyncio.get_running_loop().call_later(random.random() * 0.01, asked[0].go)
        elif kind == "steer":
            asked.append(self.ask())
            await provider.pause()
            self.messages = [*self.messages, prompt(self.wire, "and " + self.crowd.say(1, self.name))]
        elif kind == "leaves":
            asked.append(self.ask(leaves=random.choice((0, 1, 2, 4))))
            asyncio.get_running_loop().call_later(random.random() * 0.02, asked[0].go)
        elif kind == "anew" and random.random() < 0.3:
            self.begin()
        asked.append(self.ask())
        for one in asked:
            if any(step.end == "hangs" for step in provider.scripts[one.key][1]):
                asyncio.get_running_loop().call_later(0.05, one.go)
        await asyncio.wait_for(asyncio.gather(*(one.task for one in asked)), 30)
        mine = [one for one in asked if one.body.get("tools")]
        random.shuffle(mine)
        for one in mine:
            if self.taken(one):
                return

    async def play(self, moves: int) -> None:
        for _ in range(moves):
            await self.move(self.crowd.random.choice(MOVES))


async def played(seed: int, url: str, proxies: int) -> None:
    crowd = Crowd(seed, url, proxies)
    random = crowd.random
    agents = [
        Agent(crowd, random.choice(sorted(MEMBERS)), f"s{n}", named=random.random() < 0.6)
        for n in range(random.choice((1, 3, 4)))
    ]
    await asyncio.gather(*(one.play(random.choice((4, 8))) for one in agents))
    for app in crowd.apps:
        while tasks := app.state.door.tasks:
            await asyncio.wait_for(asyncio.wait(set(tasks)), 30)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert crowd.provider.open == 0, "an answer of the provider was not closed"
    in_use = [app.state.door.gate.ready for app in crowd.apps]
    assert not any(one.users for sessions in in_use if sessions for one in sessions.all())
    try:
        await asyncio.to_thread(checked, crowd)
    finally:
        for app in crowd.apps:
            await close(app.state.door)


def checked(crowd: Crowd) -> None:
    engine = crowd.apps[0].state.engine
    places: dict[str, set[Where]] = defaultdict(set)
    logs: dict[str, list[Any]] = {}
    for name, _ in engine.sessions():
        assert [one for one in engine.audit(name).differences if one.kind != "wire"] == []
        logs[name] = [stored.event for stored in engine.log.read(engine.find(name))]
        harness, _, id = name.partition("/")
        session = engine.session(id, harness)
        for event in logs[name]:
            if isinstance(event, ev.Pass):
                places[key_of(map(json.loads, session.reopen(event.number).built.messages))].add((name, event.number))
    homes: dict[str, set[Where]] = {}
    for agent, one, whole in crowd.asked:
        for sent in crowd.provider.sent:
            if sent.key == one.key:
                homes[sent.id] = of_the_log(agent, whole, sent, places, logs)
        reached(one, [sent for sent in crowd.provider.sent if sent.key == one.key])
    for name, events in logs.items():
        told_once(name, events, homes)


def key_of(messages: Any) -> str:
    return json.dumps([unmarked(one) for one in messages])


def of_the_log(
    agent: Agent, whole: dict[str, Any], sent: Sent, places: dict[str, set[Where]], logs: dict[str, list[Any]]
) -> set[Where]:
    """A request that went out is one of the log, valid, and says what its client says. Return which it may be."""
    body, member = json.loads(sent.body), MEMBERS[agent.wire]
    if not whole["tools"]:
        assert body == whole, "a call beside the conversation was changed"
        return set()
    found = places[key_of(body[member])]
    assert found, f"{sent.key}: what was sent is in no log"
    excused = broken_rules(broken(agent.wire, whole))
    assert not [one for one in broken(agent.wire, body) if one.rule not in excused], "PROP-2"
    said, kept = (WORD.findall(json.dumps(messages[member])) for messages in (whole, body))
    last = max(number for _, number in found)
    rebuilt = any(
        isinstance(event, ev.Pass) and not isinstance(event, ev.PassDeferred) and 1 < event.number <= last
        for name, _ in found
        for event in logs[name]
    )
    assert set(kept) <= set(said) or rebuilt, f"{sent.key}: a stranger's words"
    assert kept == said or rebuilt, f"{sent.key}: something is lost or there twice"
    return found


def reached(one: Ask, sent: list[Sent]) -> None:
    """A client that stayed has the last answer, byte for byte, and its end only where it had one."""
    if one.left:
        return
    if not sent or sent[-1].step.end == "unread":
        assert one.ended
        assert one.status in ((400, 503) if not sent else (502,)), one.got
        return
    assert (one.status, one.got) == (sent[-1].status, sent[-1].given), f"{one.key}: {sent[-1].step}"
    assert one.ended == (sent[-1].step.end not in CUT)


def told_once(name: str, events: list[Any], homes: dict[str, set[Where]]) -> None:
    """What became of each pass is written down, and the usage of an answer for the request it answered."""
    ended: dict[int, set[str]] = defaultdict(set)
    for event in events:
        if isinstance(event, ev.UsageReported | ev.RequestOutcome | ev.OverflowReported):
            ended[event.number].add(getattr(event, "outcome", type(event).__name__))
        if isinstance(event, ev.UsageReported) and event.cmd.startswith("resp."):
            assert (name, event.number) in homes[event.cmd], "usage was recorded for another request"
    went = {number for found in homes.values() for where, number in found if where == name}
    for event in events:
        if isinstance(event, ev.Pass):
            assert ended[event.number], f"{name}: what became of pass {event.number} is not told"
            assert event.number in went or ended[event.number] == {"not_processed"}, "it was never sent"


@pytest.mark.rule("PROXY-11", "PROXY-45", "PROXY-50", "PROXY-55", "PROP-2")
@pytest.mark.parametrize("proxies", [1, 2])
@pytest.mark.parametrize("seed", range(8))
def test_requests_that_overlap_are_each_the_logs_and_each_answer_is_its_clients(
    tmp_path: Path, seed: int, proxies: int
) -> None:
    with capture_logs() as logs:
        asyncio.run(played(seed, "memory:" if proxies == 1 else f"sqlite:///{tmp_path / 'store.db'}", proxies))
    found = [one["event"] for one in logs if one["log_level"] in ("warning", "error")]
    assert [event for event in found if not any(words in event for words in HARMLESS)] == []

"""A plugin that takes the edits of every pass and applies them holds what the engine would have sent."""

from __future__ import annotations

import itertools
import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from foldlog import Engine, Session
from foldlog.adapters.historian import Historian
from foldlog.adapters.hosts.edits import edits, entry, unit
from foldlog.adapters.models.summarizers import Extractive
from foldlog.adapters.models.tokens import ENCODING, tokenizer
from foldlog.domain.edits import Insert, MessageSlots, PartSlots
from foldlog.domain.errors import UnknownTag
from foldlog.storage.protocol import open_log
from support.agent import Agent
from support.node import needs_node, run
from support.past import summarise

HERE = Path(__file__).parent
TEXTS = ("look", "and then", "§4§ again", "wörter — \U0001f600", "x " * 300, " ")


class OpenCode:
    """Makes this host's messages."""

    codec = "opencode"

    def user(self, n: int, text: str) -> list[dict[str, Any]]:
        info = {"id": f"msg_{n:04}", "role": "user", "time": {"created": n}}
        return [{"info": info, "parts": [{"type": "text", "text": text, "id": f"prt_{n}"}]}]

    def step(self, n: int, text: str, calls: list[tuple[str, str]]) -> list[dict[str, Any]]:
        tools = [
            {
                "type": "tool",
                "callID": call,
                "tool": "read",
                "state": {"status": "completed", "input": {"path": "/a" * len(output), "n": 1.5}, "output": output},
            }
            for call, output in calls
        ]
        said: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        return [
            {
                "info": {"id": f"msg_{n:04}", "role": "assistant"},
                "parts": [{"type": "step-start"}, *said, *tools, {"type": "step-finish", "cost": 0.1}],
            }
        ]

    def id(self, message: dict[str, Any]) -> str:
        return str(message["info"]["id"])

    def role(self, message: dict[str, Any]) -> str:
        return str(message["info"]["role"])


class Pi:
    """Makes this host's messages, with the id its plugin writes into each."""

    codec = "pi"

    def user(self, n: int, text: str) -> list[dict[str, Any]]:
        return [{"id": f"u{n}", "role": "user", "content": text, "timestamp": n}]

    def step(self, n: int, text: str, calls: list[tuple[str, str]]) -> list[dict[str, Any]]:
        content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        content += [
            {"type": "toolCall", "id": c, "name": "read", "arguments": {"path": "/a" * len(o)}} for c, o in calls
        ]
        head = {"id": f"a{n}", "role": "assistant", "content": content, "stopReason": "toolUse" if calls else "stop"}
        results = [
            {
                "id": f"r{n}-{call}",
                "role": "toolResult",
                "toolCallId": call,
                "toolName": "read",
                "content": [{"type": "text", "text": output}],
                "isError": False,
            }
            for call, output in calls
        ]
        return [head, *results]

    def id(self, message: dict[str, Any]) -> str:
        return str(message["id"])

    def role(self, message: dict[str, Any]) -> str:
        return str(message["role"])


def play(
    host: Any, seed: int, steps: int, *, summaries: bool = False, back: float = 0
) -> tuple[list[dict[str, Any]], list[Any]]:
    """Play a session; return what the plugin gets at each pass, and what it has to make of it.

    ``summaries``: old history is summarised, so that the head covers messages the plugin leaves out. ``back``: how
    often its person goes back to an earlier prompt, behind that or before it.
    """
    dice = random.Random(seed)
    historian = Historian(Extractive(tokenizer()), tokenizer(), inline=True) if summaries else None
    engine = Engine(open_log("memory:"), tokenizer(), ENCODING, itertools.count(10**12).__next__, historian)
    session = engine.session("s", harness="t", codec=host.codec, model="claude-x", context_limit=30_000)
    array: list[dict[str, Any]] = []
    told: list[dict[str, Any]] = []
    wanted: list[Any] = []
    base = 0
    for n in range(1, steps + 1):
        if n % 4 == 1:
            array += host.user(n, f"{dice.choice(TEXTS)} {n}")
        else:
            calls = [(f"c{n}_{i}", dice.choice(("", "out ", "long " * 400)) + str(n)) for i in range(dice.randrange(3))]
            array += host.step(n, "" if calls and dice.random() < 0.5 else f"so {n}", calls)
        if back and n > 3 and dice.random() < back:
            prompts = [place for place, one in enumerate(array) if host.role(one) == "user"]
            array = [*array[: dice.choice(prompts[1:] or [len(array)])], *host.user(n + 1000, f"another way {n}")]
        if n > 6 and dice.random() < 0.1:
            del array[-1 if host.codec == "opencode" else len(array) :]
        if n == 9 and host.codec == "opencode":
            array[2] = {**array[2], "parts": [*array[2]["parts"], {"type": "text", "text": "put in later"}]}
        request = session.prepare(array, system=f"You are {n // 17}", now=1e9 + n)
        forget = dice.random() < 0.1
        given = edits(request, 0 if forget else base)
        base = request.pass_number
        ids = [host.id(message) for message in array]
        told.append({"edits": given, "messages": json.loads(json.dumps(array)), "ids": ids, "forget": forget})
        wanted.append(([json.loads(raw) for raw in request.messages_json], request.digest))
        request.report_usage(input=request.usage_estimate, output=10, now=1e9 + n)
        _act(session, dice)
    engine.close()
    return told, wanted


def _act(session: Session, dice: random.Random) -> None:
    tags = session.status().tags
    if tags > 3 and dice.random() < 0.4:
        with suppress(UnknownTag):  # it may be from before a summary
            session.reduce(str(dice.randrange(1, tags)))
    if dice.random() < 0.15:
        session.flush()
    if dice.random() < 0.04:
        session.report_cache_loss("said so")


@needs_node
@pytest.mark.parametrize("host", [OpenCode(), Pi()], ids=["opencode", "pi"])
@pytest.mark.parametrize(("seed", "summaries"), [(1, False), (2, False), (4, True), (5, True)])
def test_the_plugin_makes_what_the_engine_says(host: Any, seed: int, summaries: bool) -> None:
    """EDIT-1, EDIT-3, EDIT-4: after each pass, of every level, messages and digest are those of the view."""
    told, wanted = play(host, seed, 48, summaries=summaries)
    assert any(one["edits"].get("cut") for one in told) is summaries
    assert len({tuple(one["edits"]) for one in told}) > 1
    made = run(HERE / "passes.mjs", {"passes": told})
    for number, (found, (messages, digest)) in enumerate(zip(made, wanted, strict=True)):
        assert found.get("missing") == [], number
        assert found["messages"] == messages, number
        assert found["digest"] == digest, number


@needs_node
@pytest.mark.parametrize("host", [OpenCode(), Pi()], ids=["opencode", "pi"])
@pytest.mark.parametrize("seed", [2, 5, 7, 13])
def test_the_plugin_follows_a_host_that_goes_back(host: Any, seed: int) -> None:
    """EDIT-1, EDIT-3, EDIT-5: behind what summaries cover and before it, and nothing is named that is not there."""
    told, wanted = play(host, seed, 60, summaries=True, back=0.12)
    assert any(one["edits"].get("cut") for one in told)
    made = run(HERE / "passes.mjs", {"passes": told})
    for number, (found, (messages, digest)) in enumerate(zip(made, wanted, strict=True)):
        assert found == {"missing": [], "messages": messages, "digest": digest}, number


class Told(Agent):
    """An agent whose plugin takes the edits of every pass."""

    def __init__(self, codec: str) -> None:
        super().__init__(codec, policy={"protected_tokens": 0}, model="claude-x")
        self.told: list[dict[str, Any]] = []
        self.wanted: list[Any] = []

    def again(self, **given: Any) -> Any:
        request = super().again(**given)
        messages = [json.loads(raw) for raw in self.messages]
        ids = [one.get("info", {}).get("id") or str(place) for place, one in enumerate(messages, 1)]
        given = edits(request, request.pass_number - 1)
        self.told.append({"edits": given, "messages": messages, "ids": ids, "forget": False})
        self.wanted.append(([json.loads(raw) for raw in request.messages_json], request.digest))
        return request


@needs_node
@pytest.mark.parametrize("codec", ["opencode", "pi"])
@pytest.mark.rule("TODO-11")
def test_the_plugin_says_a_to_do_list_again_where_the_engine_does(codec: str) -> None:
    """EDIT-1, EDIT-3, EDIT-4: put in, kept, moved and taken away."""
    host = Told(codec)
    host.ask("start")
    step = {"content": "write", "status": "pending"}
    host.list(step)
    for rounds in range(3):
        for _ in range(5):
            host.step()
        summarise(host, host.starts[-3])
        host.session.report_cache_loss("said so")
        host.step()
        if rounds == 1:
            host.list({**step, "priority": "high"})
    host.list({**step, "status": "completed"})
    host.session.report_cache_loss("said so")
    host.step()
    made = run(HERE / "passes.mjs", {"passes": host.told})
    there = []
    for number, (found, (messages, digest)) in enumerate(zip(made, host.wanted, strict=True)):
        assert found.get("missing") == [], number
        assert found["messages"] == messages, number
        assert found["digest"] == digest, number
        there.append(json.dumps(messages).count("foldlog_todo_"))
    assert set(there) == {0, 1 if codec == "opencode" else 2}
    assert there[-1] == 0


def test_a_deferred_pass_tells_only_what_is_new() -> None:
    """EDIT-1, EDIT-6: nothing of it grows with the session."""
    told, _ = play(OpenCode(), 4, 40)
    assert all(one["edits"]["guidance"].startswith("# Managing your context") for one in told)
    deferred = [one["edits"] for one in told if one["edits"]["from"] and "head" not in one["edits"]]
    assert len(deferred) > 10
    assert all(len(one["messages"]) <= 3 and not one["inserts"] for one in deferred)


@needs_node
def test_edits_on_another_version_are_not_applied() -> None:
    """EDIT-1."""
    told, _ = play(OpenCode(), 5, 6)
    later = next(one for one in told[2:] if one["edits"]["from"])
    other = later | {"edits": {**later["edits"], "from": 77}}
    found = run(HERE / "passes.mjs", {"passes": [told[0], other]})
    assert found[1] == {"error": "MissingBase"}


@needs_node
def test_an_edit_whose_target_is_not_there_is_reported() -> None:
    """EDIT-5."""
    told, _ = play(OpenCode(), 6, 3)
    last = told[-1]
    short = {**last, "messages": last["messages"][:-1], "ids": last["ids"][:-1]}
    assert run(HERE / "passes.mjs", {"passes": [*told[:-1], short]})[-1]["missing"] == [last["ids"][-1]]


def test_slots_in_their_shortest_form() -> None:
    """EDIT-2."""
    texts = {b"a": "A", b"b": "B"}
    slots = MessageSlots(
        parts=(
            PartSlots(tag=3),
            PartSlots(),
            PartSlots(tag=-4, body="placeholder", media="strip"),
            PartSlots(body="text", text=b"a", pre=(("hint", b"b"), ("time", b"a")), think="absent"),
            PartSlots(),
        ),
        trail=0,
    )
    assert entry(slots, texts.__getitem__) == {
        "trail": 0,
        "parts": [
            3,
            0,
            {"tag": -4, "body": "placeholder", "media": "strip"},
            {"body": "text", "text": "A", "pre": "AB", "think": "absent"},
        ],
    }
    assert entry(MessageSlots(), texts.__getitem__) == {}
    assert entry(MessageSlots(shape="shell", text=b"a"), texts.__getitem__) == {"shape": "shell", "text": "A"}
    arc = {b"c": '{"id":"t","name":"n","input":{},"output":{"a":1}}'}
    made = {"kind": "arc", "id": "t", "name": "n", "input": {}, "output": '{"a":1}'}
    assert unit(Insert(1, 0, "x", "arc", b"c"), arc.__getitem__) == made
    assert unit(Insert(1, 0, "x", "text", b"a"), texts.__getitem__) == {"kind": "text", "role": "user", "text": "A"}

"""A host whose history is what was served: our own messages that come back are known again (ECHO-1 to ECHO-4)."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import msgspec
import pytest

import foldlog
from foldlog.domain import events as ev
from support.hosts import WRITERS
from support.past import summarise
from support.talk import Chat, assistant, events, fingerprint, user, words
from support.turns import CODECS, NOW, rounds

SYSTEM = "You work."


class Host:
    """A host of a codec. ``messages``: what it holds as its history."""

    def __init__(self, codec: str, **options: Any) -> None:
        self.codec = codec
        self.engine = foldlog.Engine.open("memory:", summarizer=None)
        self.options = {"context_limit": 200_000, "model": "claude-sonnet-4-5", "codec": codec, **options}
        self.session = self.engine.session("chat", **self.options)
        self.messages: list[Any] = []
        self.turns = iter(rounds(60))
        self.now = NOW
        self.system: Any = SYSTEM

    @property
    def state(self) -> Any:
        return self.session.core.hot().state

    def more(self) -> list[bytes]:
        one = next(self.turns)
        long = " It is really just that the file was basically read by the tool." * 4
        said = replace(one, text=one.text + long if one.text else "")
        return list(WRITERS[self.codec](said, len).messages)

    def again(self) -> foldlog.Request:
        self.now += 10
        return self.session.prepare(self.messages, system=self.system, now=self.now)

    def go(self, turns: int = 1) -> foldlog.Request:
        for _ in range(turns):
            self.messages += self.more()
            request = self.again()
        return request

    def takes(self, request: foldlog.Request) -> None:
        """Hold from now on what was served, in an encoding of the host's own."""
        raws = request.messages_json[request.built.leading :]
        self.messages = [json.dumps(json.loads(raw), indent=1).encode() for raw in raws]

    def sound(self) -> bool:
        return not [one for one in self.engine.audit("chat").differences if one.kind != "wire"]


def worked(codec: str, kind: str) -> Host:
    """Return a host whose session has had: numbers only, a rebuild with drops, summaries, terse texts."""
    terse = {"caveman_text_compression": True, "caveman_min_chars": 100} if kind == "terse" else {}
    host = Host(codec, policy={"protected_tokens": 0, **terse})
    host.go(8)
    if kind in ("drops", "terse"):
        host.session.reduce("1-3")
        host.session.flush()
        host.go(3)
        host.session.reduce("5-7")
        host.session.flush()
        host.go(3)
    if kind == "terse":
        assert any(tag.mode.startswith("terse") for tag in host.state.tags)
    if kind == "gone":
        host.go(26)
        host.session.reduce("3-9")
        host.session.flush()
        host.go()
        assert host.state.gone
    if kind == "summaries":
        host.go(8)
        summarise(host, 6)  # type: ignore[arg-type]
        host.session.report_cache_loss("test")
        assert host.go().level == "hard"
        assert host.state.cut
    return host


KINDS = ("numbers", "drops", "gone", "terse", "summaries")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("codec", CODECS)
def test_a_host_that_hands_back_what_was_served_said_nothing_new(codec: str, kind: str) -> None:
    """ECHO-1, CB-06: no identity, number or byte is another; what is new goes behind."""
    host = worked(codec, kind)
    before = host.go()
    nodes, numbers = len(host.state.nodes), len(host.state.tags)
    for _ in range(3):
        host.takes(before)
        version = host.state.version
        assert host.again().digest == before.digest
        assert host.state.version == version
        new = host.more()
        host.messages += new
        after = host.again()
        nodes += len(new)
        assert (after.level, len(host.state.nodes)) == ("defer", nodes)
        assert after.messages_json[: len(before.messages_json)] == before.messages_json
        assert len(host.state.tags) > numbers
        before = after
    assert "§ §" not in b"".join(before.messages_json).decode()
    assert not host.state.queue
    assert host.sound()


@pytest.mark.parametrize("codec", CODECS)
def test_messages_it_took_only_some_of(codec: str) -> None:
    """ECHO-1: the message objects of a host that an adapter wrote to, some of them, and some as they were."""
    host = worked(codec, "drops")
    before = host.go()
    own = list(host.messages)
    draw = random.Random(7)
    state = host.state
    served = {m: raw for raw, m in zip(before.messages_json, before.built.owners, strict=True) if m}
    host.messages = [
        served[m] if m in served and draw.random() < 0.5 else raw for m, raw in zip(state.path, own, strict=True)
    ]
    version = state.version
    assert host.again().digest == before.digest
    assert host.state.version == version


@pytest.mark.parametrize("codec", CODECS)
def test_a_history_of_an_earlier_request(codec: str) -> None:
    """ECHO-2: numbers from before a drop, and a head from before a fold, are known too."""
    host = worked(codec, "numbers")
    held = host.go()
    earlier = list(host.messages)
    host.session.reduce("2-6")
    host.session.flush()
    host.go(2)
    summarise(host, 5)  # type: ignore[arg-type]
    host.session.report_cache_loss("test")
    rest = host.messages[len(earlier) :]
    last = host.again()
    assert last.level == "hard"
    host.takes(held)
    host.messages += rest
    nodes, version = len(host.state.nodes), host.state.version
    assert host.again().digest == last.digest
    assert (len(host.state.nodes), host.state.version) == (nodes, version)
    host.go()
    host.engine.release("chat", "api")
    host.session = host.engine.session("chat", **host.options)
    assert host.go().level == "defer"
    assert host.sound()


def test_reminders_times_and_appeals_that_come_back() -> None:
    """ECHO-1, SAY-1 to SAY-3: what was told the agent is not told by its host."""
    host = Chat(context_limit=1_000_000, policy={"protected_tokens": 4})
    host.say(user("start")).report_usage(input=100, now=host.now)
    for number in range(16):
        host.tool(f"t{number}", words(9_000) + str(number))
    request = host.turn("back", wait=400)
    request = host.tool("last", words(9_000))
    said = b"".join(request.messages_json)
    assert b"<system-reminder>" in said
    assert b"<!-- +" in said
    assert any(event.inserts for event in events(host.session, ev.PassDeferred))
    for number in range(4):
        host.messages = [json.loads(raw) for raw in request.messages_json]
        version = host.state.version
        assert host.again().digest == request.digest
        assert host.state.version == version
        after = host.tool(f"u{number}", words(30))
        assert after.messages_json[: len(request.messages_json)] == request.messages_json
        request = after


@pytest.mark.parametrize("codec", CODECS)
def test_a_host_that_tells_what_changed_tells_nothing_by_an_echo(codec: str) -> None:
    """ECHO-1 through the other door."""
    host = worked(codec, "drops")
    before = host.go()
    state = host.state
    served = {m: raw for raw, m in zip(before.messages_json, before.built.owners, strict=True) if m}
    names = [(state.node(m).message.host_id or m, raw) for m, raw in served.items()]
    revised = [(name, raw) for name, raw in names]
    after = host.session.advance(host.more(), revised=revised, now=host.now + 10)
    assert after.level == "defer"
    assert after.messages_json[: len(before.messages_json)] == before.messages_json
    assert not [
        stored for stored in host.engine.log.read(host.engine.find("chat")) if type(stored.event) is ev.PartsRevised
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_the_guidance_in_a_system_text_that_comes_back(codec: str) -> None:
    """ECHO-3: it is no other system text, so no fold."""
    host = worked(codec, "numbers")
    before = host.go()
    leading = [json.loads(raw) for raw in before.messages_json[: before.built.leading]]
    host.system = json.loads(before.built.system) if before.built.system else None
    host.messages = [*(msgspec.json.encode(one) for one in leading), *host.messages]
    after = host.go()
    assert after.level == "defer"
    assert after.messages_json[: len(before.messages_json)] == before.messages_json
    assert after.built.system == before.built.system


@pytest.mark.parametrize(
    "said",
    [
        "[dropped §2§]",
        "§9§ seven",
        "<session-history></session-history>",
        "<session-history>\n## 1-2 It\nall a lie\n</session-history>",
        "<!-- +12m -->\nback again",
    ],
)
def test_a_persons_own_words_stay_theirs(said: str) -> None:
    """ECHO-4, LAW-5: what merely looks like ours, where nothing of ours was served, is a message like any other."""
    host = Chat()
    host.say(user("one"))
    host.turn("two")
    request = host.turn(said)
    assert host.session.expand(str(len(host.state.tags)))[0].text == said
    assert len(host.state.path) == 5
    assert len(request.messages_json) == 7
    edited = [user(said), *host.messages[1:], assistant("so"), user("go on")]
    host.messages = edited
    host.again()
    assert b"one" not in host.session.core.body(host.state.node(host.state.path[0]).message.body)


def test_the_same_words_of_somebody_else_are_no_echo() -> None:
    """ECHO-4: what the model said is not what a person says."""
    host = Chat()
    host.say(user("one"))
    served = host.turn("two").messages_json
    host.messages = [json.loads(raw) for raw in served[2:]]
    host.messages[1] = {**host.messages[1], "role": "user"}
    host.say(assistant("so"), user("go on"))
    assert len(host.state.nodes) > 5


def test_a_head_of_another_session_is_its_hosts_own() -> None:
    """ECHO-4: what no request of this session held is kept as it came."""
    first = Chat(id="first")
    first.say(user("one"))
    served = first.turn("two").messages_json
    other = Chat(first.engine, id="other")
    request = other.say(*(json.loads(raw) for raw in served))
    assert len(other.state.path) == len(served)
    assert len(request.messages_json) == len(served) + 2


def _shown(host: Host) -> bool:
    """Whether all that was published is in the request."""
    made = host.state.compartments
    return not made or made[-1].seq <= host.state.rendered


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("seed", range(6))
def test_whatever_comes_back_in_whatever_order(codec: str, seed: int) -> None:
    """ECHO-1, ECHO-2, LAW-3: a host that takes what was served now and then, drops, flushes, folds and restarts."""
    draw = random.Random(seed)
    host = Host(codec, policy={"protected_tokens": 0})
    request = host.go(2)
    nodes = len(host.state.nodes)
    for _ in range(22):
        act = draw.random()
        if act < 0.35:
            host.takes(request)
        elif act < 0.5:
            host.session.reduce(str(draw.randint(1, len(host.state.tags))))
        elif act < 0.6:
            host.session.flush()
        elif act < 0.7:
            host.session.report_cache_loss("test")
        elif act < 0.8:
            host.engine.release("chat", "api")
            host.session = host.engine.session("chat", **host.options)
        elif act < 0.9 and len(host.state.path) > 9 + host.state.start() and _shown(host):
            summarise(host, host.state.start() + 5)  # type: ignore[arg-type]
        new = host.more()
        host.messages += new
        nodes += len(new)
        before, request = request, host.again()
        assert len(host.state.nodes) == nodes
        if request.level == "defer":
            assert request.messages_json[: len(before.messages_json)] == before.messages_json
    assert host.sound()


def test_an_echo_is_free_where_nothing_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """ECHO-1: an array that only grows is not compared with anything served."""
    from foldlog.projections import echo

    host = Chat()
    host.say(user("one"))
    host.turn("two")
    before = fingerprint(host.session)

    def never(*_: Any) -> Any:
        raise AssertionError("a served form was made for nothing")

    monkeypatch.setattr(echo, "_numbered", never)
    host.turn("three")
    assert fingerprint(host.session) != before

"""What went out while nobody could write it down, and whose process did not live to tell it (LAST-6, LAST-7)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import foldlog
from foldlog.domain import events as ev
from foldlog.domain.errors import MessageError, StoreBusy
from support.talk import assistant, call, fingerprint, result, user
from support.turns import CODECS, NOW, arrays

SYSTEM = "You work."


class World:
    """A store, and processes that use it one after the other; ``busy``: nothing can be written."""

    def __init__(self, codec: str = "anthropic", **options: Any) -> None:
        self.codec, self.options = codec, {"context_limit": 200_000, "model": "claude-sonnet-4-5", **options}
        self.busy = False
        self.now = NOW
        self.first = foldlog.Engine.open("memory:", summarizer=None)
        self._append = self.first.log.append
        self.first.log.append = self.append  # type: ignore[method-assign]
        self.session = self.process()

    def append(self, *given: Any, **named: Any) -> Any:
        if self.busy:
            raise StoreBusy("another process holds the store")
        return self._append(*given, **named)

    def process(self) -> foldlog.Session:
        """Return the session in a process of its own, which knows what the log tells and nothing else."""
        first = self.first
        engine = foldlog.Engine(first.log, first._reader.count, first._tokenizer, first._clock)
        self.session = engine.session("s", codec=self.codec, **self.options)
        return self.session

    def pass_(self, messages: list[Any], wait: float = 10, **given: Any) -> foldlog.Request:
        self.now += wait
        return self.session.prepare(messages, now=self.now, **{"system": SYSTEM, **given})

    def raw(self, messages: list[Any], wait: float = 10) -> list[bytes]:
        """Send while nothing can be written; return the request that went out."""
        self.now += wait
        self.busy = True
        request = self.session.last_good(messages, system=SYSTEM, now=self.now)
        self.busy = False
        assert request is not None
        return list(request.messages_json)

    def events(self, kind: type) -> list[Any]:
        return [one.event for one in self.first.log.read(self.first.find("s")) if isinstance(one.event, kind)]

    def sound(self) -> bool:
        return not [one for one in self.first.audit("s").differences if one.kind != "wire"]


@pytest.fixture(params=CODECS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    found = World(request.param)
    yield found
    found.first.close()


def test_what_a_dead_process_sent_stays_as_it_went_out(world: World) -> None:
    """LAST-6: the next process finds an answer nobody asked for, and so what went out; it is told in the log."""
    steps = arrays(world.codec, 6)
    world.pass_(steps[0])
    world.pass_(steps[1])
    for missed in steps[2:4]:
        went_out = world.raw(missed)
    world.process()
    request = world.pass_(steps[4])
    assert request.level == "defer"
    assert list(request.messages_json[: len(went_out)]) == went_out
    assert len(world.events(ev.LastGoodReplayed)) == 1  # the last one holds those before
    numbers = [number for one in world.events(ev.LastGoodReplayed)[0].arrivals for number in one.tags if number]
    assert len(numbers) > 2
    assert all(number > 0 for number in numbers)
    assert "§".encode() in b"".join(request.messages_json[len(went_out) :])  # what is new shows its numbers
    again = world.pass_(steps[5])
    assert list(again.messages_json[: len(request.messages_json)]) == list(request.messages_json)
    assert world.sound()


def test_its_numbers_show_from_the_next_rebuild_on(world: World) -> None:
    """LAST-3, LAST-6."""
    steps = arrays(world.codec, 6)
    world.pass_(steps[0])
    world.pass_(steps[1])
    world.raw(steps[2])
    world.process()
    world.pass_(steps[3])
    told = world.events(ev.LastGoodReplayed)[0]
    hidden = [f"§{number}§ ".encode() for one in told.arrivals for number in one.tags if number]
    world.session.reduce("1")
    world.session.flush()
    request = world.pass_(steps[4])
    assert request.level != "defer"
    whole = msgspec.json.encode([msgspec.json.decode(raw) for raw in request.messages_json])
    assert [mark for mark in hidden if mark not in whole] == []
    assert world.sound()


def test_a_rebuild_behind_it_leaves_it_as_it_went_out() -> None:
    """LAST-3, PERM-8: where the host broke the prefix, nothing before that place may change."""
    world = World()
    turns = [user("one"), assistant("two"), user("three"), assistant("four"), user("five")]
    world.pass_(turns[:1])
    before = world.pass_(turns)
    turns += [assistant([call("t1")]), user([result("t1", "out " * 500)]), assistant("eight"), user("nine")]
    world.pass_(turns[:-2])
    world.pass_(turns)
    world.session.reduce("6")
    for _ in range(4):
        turns += [assistant([call(f"u{len(turns)}")]), user([result(f"u{len(turns)}", "more " * 9_000)])]
        world.pass_(turns)
    turns[4] = user("five, and more")
    request = world.pass_([*turns, assistant("ten"), user("eleven")])
    assert request.level == "soft+"
    assert request.messages_json[: len(before.messages_json) - 1] == before.messages_json[:-1]
    assert world.sound()
    world.session.flush()
    world.session.reduce("1")
    after = world.pass_([*turns, assistant("ten"), user("eleven"), assistant("12"), user("13")])
    assert "§3§ three".encode() in b"".join(after.messages_json)
    assert world.sound()


def test_a_host_that_tells_only_what_is_new(world: World) -> None:
    """LAST-6 through the other door (API-1); the delta holds what the host has not been told of."""
    steps = arrays(world.codec, 5)
    world.pass_(steps[0])
    world.pass_(steps[1])
    went_out = world.raw(steps[2])
    world.process()
    request = world.session.advance(steps[3][len(steps[1]) :], now=world.now + 10)
    assert list(request.messages_json[: len(went_out)]) == went_out
    new = steps[3][len(steps[1]) :]
    assert len([raw for one in request.delta for raw in one.json]) == len(new)
    assert world.sound()


def test_what_a_host_sent_while_foldlog_was_paused(world: World) -> None:
    """LAST-6: requests that went past foldlog went out raw too."""
    steps = arrays(world.codec, 7)
    world.pass_(steps[0])
    request = world.pass_(steps[5])
    raw = b"".join(request.messages_json)
    assert [m for m in steps[4][len(steps[0]) :] if m not in raw and world.codec != "pi"] == []
    assert len(world.events(ev.LastGoodReplayed)) == 1
    assert world.sound()


def test_in_the_same_process_it_is_told_once(world: World) -> None:
    """LAST-2: what memory owes is recorded, and not found a second time."""
    steps = arrays(world.codec, 5)
    world.pass_(steps[0])
    world.raw(steps[1])
    world.pass_(steps[2])
    world.pass_(steps[3])
    assert len(world.events(ev.LastGoodReplayed)) == 1
    assert world.sound()


@pytest.mark.parametrize(
    "messages",
    [
        [user("one"), assistant("two"), user("three")],
        [user("one"), assistant("two"), assistant("and more"), user("three")],
        [user("one"), user("two"), user("three")],
        [user("one"), user("two"), user("three"), assistant("begin with")],
        [user("one"), assistant("two"), user("three"), assistant("begin with")],
        [user("one"), assistant([call("t1")]), user([result("t1", "out")]), user("three"), assistant("{")],
        [user("other"), assistant("two"), user("three"), assistant("four"), user("five")],
    ],
    ids=["one turn", "an answer in two", "prompts", "prefill", "turn and prefill", "tools and prefill", "another way"],
)
def test_what_no_answer_shows_is_new(messages: list[Any]) -> None:
    """LAST-7: a prefill answers nothing, and what leaves the path tells nothing of what went out behind it."""
    world = World()
    world.pass_([user("one")])
    request = world.pass_(messages)
    assert world.events(ev.LastGoodReplayed) == []
    sent = request.messages_json[request.built.head :]
    assert all("§".encode() in raw for raw in sent if b"tool_use" not in raw or b"tool_use_id" in raw)


def test_an_answer_its_host_made_up_shows_nothing() -> None:
    """LAST-7: Claude Code puts one behind what a person ran beside the conversation; nobody was asked."""
    world = World()
    turns = [user("one"), assistant("two"), user("<local-command-stdout>ok"), assistant("No response requested.")]
    world.pass_(turns[:1])
    request = world.pass_([*turns, user("three")])
    assert world.events(ev.LastGoodReplayed) == []
    assert "§3§ <local".encode() in request.messages_json[-3]
    world.pass_([*turns, user("three"), assistant("four"), user("five"), *turns[1:], user("six")])
    assert [len(one.arrivals) for one in world.events(ev.LastGoodReplayed)] == [2]


def test_a_session_taken_over_in_the_middle_has_all_its_numbers(world: World) -> None:
    """LAST-7: before a first request there is none to go on behind."""
    request = world.pass_(arrays(world.codec, 6)[-1])
    assert (request.level, world.events(ev.LastGoodReplayed)) == ("hard", [])
    assert "§2§".encode() in b"".join(request.messages_json)


def test_a_request_beside_the_head_is_none() -> None:
    """LAST-7: a helper with examples of its own, and a session beside it, tell nothing of the head."""
    world = World()
    turns = [user("one"), assistant("two"), user("three"), assistant("four"), user("five")]
    for end in (1, 3, 5):
        world.pass_(turns[:end])
    beside = [user("a"), assistant("b"), user("c"), assistant("d"), user("e")]
    world.pass_(beside)
    world.pass_([*turns[:2], *beside])
    assert world.events(ev.LastGoodReplayed) == []


@pytest.mark.parametrize(
    ("given", "model"),
    [
        ({"system": "You rest."}, "claude-sonnet-4-5"),
        ({"tools": [{"name": "x", "input_schema": {}}]}, "claude-sonnet-4-5"),
        ({}, "claude-opus-4-5"),
    ],
)
def test_where_the_prefix_is_lost_anyway_numbers_show_at_once(given: dict[str, Any], model: str) -> None:
    """LAST-7: for another system text, other tools, another model nothing of the provider's cache is left to keep."""
    world = World()
    world.pass_([user("one")])
    world.options["model"] = model
    world.process()
    turns = [user("one"), assistant("two"), user("three"), assistant("four"), user("five")]
    request = world.pass_(turns, **given)
    assert world.events(ev.LastGoodReplayed) == []
    assert all("§".encode() in raw for raw in request.messages_json[request.built.head :])


def test_input_that_is_wrong_behind_it_changes_nothing() -> None:
    """LAST-6, API-9."""
    world = World()
    world.pass_([user("one")])
    before = fingerprint(world.session)
    with pytest.raises(MessageError):
        world.pass_([user("one"), assistant("two"), user("three"), assistant([call("t1")]), user("no result")])
    assert fingerprint(world.session) == before
    world.pass_([user("one"), assistant("two"), user("three"), assistant([call("t1")]), user([result("t1", "out")])])
    assert len(world.events(ev.LastGoodReplayed)) == 1


def test_what_would_have_to_be_mended_is_new() -> None:
    """LAST-7: a provider would have refused it, so it did not go out as it stands."""
    world = World()
    world.pass_([user("one")])
    request = world.pass_([user("one"), assistant("two"), user(""), assistant("four"), user("five")])
    assert world.events(ev.LastGoodReplayed) == []
    assert world.sound()
    assert b"(no content)" in b"".join(request.messages_json)


def test_nothing_is_said_in_what_went_out() -> None:
    """LAST-6, SAY-1: how long a person was away is told before the newest words, never before older ones."""
    world = World(policy={"cache_ttl": "never"})
    world.pass_([user("one")]).report_usage(input=100, now=world.now)
    request = world.pass_([user("one"), assistant("two"), user("three"), assistant("four"), user("five")], wait=900)
    assert msgspec.json.decode(request.messages_json[-3]) == user("three")
    assert world.sound()


def test_no_idle_expiry_is_concluded_from_a_time_nobody_knows() -> None:
    """LAST-6, SCHED-3: the request that went out may have been a moment ago."""
    world = World()
    turns = [user("one"), assistant("two"), user("three"), assistant("four"), user("five")]
    world.pass_(turns[:1])
    assert world.pass_(turns, wait=3_600).level == "defer"
    assert world.pass_([*turns, assistant("six"), user("seven")], wait=3_600).level == "hard"


def test_a_host_that_dates_its_messages_says_when() -> None:
    """LAST-6, SCHED-3."""
    world = World("pi")

    def said(role: str, words: str, at: float) -> dict[str, Any]:
        made = {"role": role, "content": [{"type": "text", "text": words}], "timestamp": int(at * 1000)}
        return {**made, "stopReason": "stop"} if role == "assistant" else made

    turns = [said("user", "one", NOW)]
    world.pass_(turns)
    turns += [said("assistant", "2", NOW + 20), said("user", "3", NOW + 30), said("assistant", "4", NOW + 40)]
    assert world.pass_([*turns, said("user", "five", NOW + 3_600)], wait=3_600).level == "hard"
    assert world.events(ev.LastGoodReplayed)[0].now == int((NOW + 30) * 1000)


def test_two_processes_that_find_it_at_once() -> None:
    """LAST-6: one of them tells it, and both go on."""
    world = World()
    turns = [user("one"), assistant("two"), user("three"), assistant("four"), user("five")]
    world.pass_(turns[:1])
    one, other = world.process(), world.process()
    one.core.hot(), other.core.hot()
    first = one.prepare(turns, system=SYSTEM, now=world.now + 1)
    second = other.prepare(turns, system=SYSTEM, now=world.now + 1)
    assert first.digest == second.digest
    assert len(world.events(ev.LastGoodReplayed)) == 1
    assert world.sound()


def test_a_conflict_while_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """LAST-6: another process writes between looking and telling."""
    world = World()
    turns = [user("one"), assistant("two"), user("three"), assistant("four"), user("five")]
    world.pass_(turns[:1])
    one, other = world.process(), world.process()
    one.core.hot()
    append = one.core._append

    def late(*given: Any) -> None:
        monkeypatch.setattr(one.core, "_append", append)
        other.flush()
        append(*given)

    monkeypatch.setattr(one.core, "_append", late)
    one.prepare(turns, system=SYSTEM, now=world.now + 1)
    assert len(world.events(ev.LastGoodReplayed)) == 1
    assert world.sound()


@pytest.mark.parametrize("compaction", [True, False])
def test_without_compaction_no_number_ever_shows(compaction: bool) -> None:
    """PERM-7, LAST-6."""
    world = World(policy={"compaction": compaction})
    turns = [user("one"), assistant("two"), user("three"), assistant("four"), user("five")]
    world.pass_(turns[:1])
    request = world.pass_(turns)
    assert ("§".encode() in b"".join(request.messages_json)) is compaction
    world.options["policy"] = {"compaction": True}
    world.process()
    request = world.pass_([*turns, assistant("six"), user("seven")], system="You rest.")
    assert request.level == "hard"
    assert ("§3§ three".encode() in b"".join(request.messages_json)) is compaction
    assert world.sound()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("seed", range(12))
def test_whoever_dies_when_the_providers_prefix_stays(codec: str, seed: int) -> None:
    """LAST-6: processes that die, a store that comes and goes; what went out is what the next request begins with."""
    draw = random.Random(seed)
    world = World(codec)
    sent: list[bytes] = []
    for messages in arrays(codec, 24):
        if draw.random() < 0.3:
            world.process()
        raw = draw.random() < 0.4 and len(sent) > 0
        now: list[bytes] | None = None
        if raw:
            world.busy = True
            request = world.session.last_good(messages, system=SYSTEM, now=world.now)
            now = list(request.messages_json) if request is not None else None
            world.busy = False
        if now is None:
            request = world.pass_(messages)
            now = list(request.messages_json)
            assert request.level == "defer" or not sent
        assert now[: len(sent)] == sent
        sent = now
        if draw.random() < 0.2:
            world.process()
    assert world.sound()

"""A store that cannot be written: the last request goes on raw, and is recorded when the store is back."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

import foldlog
from foldlog.domain import events as ev
from foldlog.domain.errors import StoreBusy
from support.talk import assistant, call, result, text, thinking, user

SYSTEM = "You work."


class Busy:
    """Makes the store of an engine busy and free again."""

    def __init__(self, engine: foldlog.Engine) -> None:
        self.now = False
        self._append = engine.log.append
        engine.log.append = self.append  # type: ignore[method-assign]

    def append(self, *given: Any, **named: Any) -> Any:
        if self.now:
            raise StoreBusy("another process holds the store")
        return self._append(*given, **named)


@pytest.fixture
def engine() -> Iterator[foldlog.Engine]:
    with foldlog.Engine.open("memory:", summarizer=None) as found:
        yield found


@pytest.fixture
def busy(engine: foldlog.Engine) -> Busy:
    return Busy(engine)


@pytest.fixture
def session(engine: foldlog.Engine) -> foldlog.Session:
    return engine.session("s", codec="anthropic", model="claude-sonnet-4-5", context_limit=200_000)


START = [user("one"), assistant("two"), user("three")]
MORE = [*START, assistant("four"), user("five")]


def events(engine: foldlog.Engine) -> list[Any]:
    return [stored.event for stored in engine.log.read(engine.find("s"))]


def served(session: foldlog.Session, request: foldlog.Request, before: list[bytes]) -> list[bytes]:
    return before + [raw for one in request.delta for raw in one.json]


def refused(session: foldlog.Session, messages: list[Any]) -> None:
    with pytest.raises(StoreBusy):
        session.prepare(messages, system=SYSTEM)


def test_what_is_new_goes_out_raw_behind_the_last_request(session: foldlog.Session, busy: Busy) -> None:
    """LAST-1."""
    first = session.prepare(START, system=SYSTEM)
    busy.now = True
    refused(session, MORE)
    request = session.last_good(MORE, system=SYSTEM)
    assert request is not None
    assert (request.level, request.reasons, request.pass_number) == ("defer", ("last_good",), first.pass_number + 1)
    assert [json.loads(raw) for one in request.delta for raw in one.json] == MORE[3:]
    assert request.usage_estimate > first.usage_estimate
    assert request.messages_json == tuple(served(session, request, list(first.messages_json)))
    assert request.system == first.system


def test_it_is_recorded_before_anything_else_and_its_bytes_stay(
    engine: foldlog.Engine, session: foldlog.Session, busy: Busy
) -> None:
    """LAST-2, LAST-3."""
    first = session.prepare(START, system=SYSTEM)
    busy.now = True
    refused(session, MORE)
    replay = session.last_good(MORE, system=SYSTEM)
    assert replay is not None
    went_out = served(session, replay, list(first.messages_json))
    busy.now = False
    request = session.prepare([*MORE, assistant("six"), user("seven")], system=SYSTEM)
    kinds = [type(event) for event in events(engine) if isinstance(event, ev.Pass | ev.LastGoodReplayed)]
    assert kinds == [ev.BaselineFolded, ev.LastGoodReplayed, ev.PassDeferred]
    (told,) = [event for event in events(engine) if isinstance(event, ev.LastGoodReplayed)]
    assert told.digest.hex() == replay.digest
    assert [abs(number) for one in told.arrivals for number in one.tags] == [4, 5]
    assert list(request.messages_json[: len(went_out)]) == went_out
    assert request.messages[-1]["content"][0]["text"].startswith("§7§")
    assert not engine.audit("s").differences
    session.flush()
    session.reduce("1")
    rebuilt = session.prepare([*MORE, assistant("six"), user("seven"), assistant("8"), user("9")], system=SYSTEM)
    assert rebuilt.level != "defer"
    assert any(b"\xc2\xa75\xc2\xa7 five" in raw for raw in rebuilt.messages_json)  # its number shows from here on
    assert not engine.audit("s").differences


def test_a_rebuild_behind_what_the_host_changed_shows_no_number_before_it(
    engine: foldlog.Engine, session: foldlog.Session, busy: Busy
) -> None:
    """LAST-3, LAW-3."""
    first = session.prepare(START, system=SYSTEM)
    busy.now = True
    replay = session.last_good(MORE, system=SYSTEM)
    assert replay is not None
    went_out = served(session, replay, list(first.messages_json))
    busy.now = False
    longer = [*MORE, assistant("six"), user("seven"), assistant("eight " * 50), user("nine")]
    session.prepare(longer, system=SYSTEM)
    session.reduce("8")
    longer[len(MORE) + 1] = user("seven, otherwise")
    rebuilt = session.prepare(longer, system=SYSTEM)
    assert rebuilt.level == "soft+"
    assert b"[dropped" in rebuilt.messages_json[-2]
    assert list(rebuilt.messages_json[: len(went_out)]) == went_out
    session.flush()
    session.reduce("1")
    later = session.prepare([*longer, assistant("ten"), user("eleven")], system=SYSTEM)
    assert any(b"\xc2\xa75\xc2\xa7 five" in raw for raw in later.messages_json)
    assert not engine.audit("s").differences


def test_where_numbers_show_on_a_bound_model_reasoning_behind_them_leaves(engine: foldlog.Engine, busy: Busy) -> None:
    """LAST-3, THINK-1: the rebuild itself changes nothing before that reasoning but these numbers."""
    session = engine.session("s", codec="anthropic", model="claude-opus-5-5", context_limit=200_000)
    session.prepare(START, system=SYSTEM)
    busy.now = True
    assert session.last_good(MORE, system=SYSTEM) is not None
    busy.now = False
    longer = [*MORE, assistant([thinking("hm"), text("six")]), user("seven"), assistant("eight " * 50), user("nine")]
    session.prepare(longer, system=SYSTEM)
    session.reduce("8")
    session.flush()
    rebuilt = session.prepare([*longer, assistant("ten"), user("eleven")], system=SYSTEM)
    assert any(b"\xc2\xa75\xc2\xa7 five" in raw for raw in rebuilt.messages_json)
    assert not any(b"thinking" in raw for raw in rebuilt.messages_json)
    assert not engine.audit("s").differences


@pytest.mark.parametrize("changed", [{"model": "gpt-5.2"}, {"context_limit": 100_000}, {"policy": {"cache_ttl": "1h"}}])
def test_what_the_host_changes_afterwards_leaves_the_record_as_it_is(
    engine: foldlog.Engine, session: foldlog.Session, busy: Busy, changed: dict[str, Any]
) -> None:
    """LAST-2: another model, window or policy is the next pass's matter."""
    session.prepare(START, system=SYSTEM)
    busy.now = True
    replay = session.last_good(MORE, system=SYSTEM)
    assert replay is not None
    busy.now = False
    given = {"model": "claude-sonnet-4-5", "context_limit": 200_000, **changed}
    later = engine.session("s", codec="anthropic", **given)
    request = later.prepare([*MORE, assistant("six"), user("seven")], system=SYSTEM)
    (told,) = [event for event in events(engine) if isinstance(event, ev.LastGoodReplayed)]
    assert told.digest.hex() == replay.digest
    assert request.pass_number == told.number + 1
    if "policy" in changed:
        assert request.level == "defer"
    assert not engine.audit("s").differences


def test_a_fork_without_a_request_of_its_own_has_none(
    engine: foldlog.Engine, session: foldlog.Session, busy: Busy
) -> None:
    """LAST-4: what its parent sent stands in the parent's log."""
    session.prepare(START, system=SYSTEM)
    fork = session.fork("other")
    busy.now = True
    assert fork.last_good(MORE, system=SYSTEM) is None
    busy.now = False
    fork.prepare(MORE, system=SYSTEM)
    busy.now = True
    request = fork.last_good([*MORE, assistant("six"), user("seven")], system=SYSTEM)
    assert request is not None
    assert json.loads(request.messages_json[-1]) == user("seven")


def test_several_in_a_row(engine: foldlog.Engine, session: foldlog.Session, busy: Busy) -> None:
    """LAST-2: what went out last holds what went out before."""
    first = session.prepare(START, system=SYSTEM)
    busy.now = True
    session.last_good(MORE, system=SYSTEM)
    longer = [*MORE, assistant("six"), user("seven")]
    replay = session.last_good(longer, system=SYSTEM)
    assert replay is not None
    went_out = served(session, replay, list(first.messages_json))
    busy.now = False
    request = session.prepare([*longer, assistant("8"), user("9")], system=SYSTEM)
    assert list(request.messages_json[: len(went_out)]) == went_out
    assert sum(isinstance(event, ev.LastGoodReplayed) for event in events(engine)) == 1
    assert not engine.audit("s").differences


def test_its_usage_counts_for_it(engine: foldlog.Engine, session: foldlog.Session, busy: Busy) -> None:
    """LAST-2."""
    session.prepare(START, system=SYSTEM)
    busy.now = True
    replay = session.last_good(MORE, system=SYSTEM)
    assert replay is not None
    with pytest.raises(StoreBusy):
        replay.report_usage(input=900, cache_read=100)
    busy.now = False
    replay.report_usage(input=900, cache_read=100)
    found = events(engine)
    assert [type(event) for event in found[-2:]] == [ev.LastGoodReplayed, ev.UsageReported]
    assert session.status().usage_tokens == 1_000


def test_a_host_that_goes_back_afterwards_diverges_by_itself(
    engine: foldlog.Engine, session: foldlog.Session, busy: Busy
) -> None:
    """LAST-3."""
    session.prepare(START, system=SYSTEM)
    busy.now = True
    session.last_good(MORE, system=SYSTEM)
    busy.now = False
    request = session.prepare([*MORE[:3], assistant("other"), user("way")], system=SYSTEM)
    assert any(reason.startswith("host_") for reason in request.reasons)
    assert not engine.audit("s").differences


def test_a_new_process_finds_it(engine: foldlog.Engine, session: foldlog.Session, busy: Busy) -> None:
    """LAST-2: an outcome alone records it too."""
    session.prepare(START, system=SYSTEM)
    busy.now = True
    replay = session.last_good(MORE, system=SYSTEM)
    assert replay is not None
    busy.now = False
    replay.report_failure("broken")
    engine.release("s", "api")
    again = engine.session("s", codec="anthropic", model="claude-sonnet-4-5", context_limit=200_000)
    request = again.prepare([*MORE, assistant("six"), user("seven")], system=SYSTEM)
    assert request.level == "defer"
    assert not engine.audit("s").differences


@pytest.mark.parametrize(
    ("messages", "named"),
    [
        (START, {}),
        (START[:1], {}),
        ([user("other"), *MORE[1:]], {}),
        ([*START[:2], user("three, and more"), assistant("x"), user("y")], {}),
        (MORE, {"system": "You rest."}),
        (MORE, {"tools": [{"name": "Bash", "input_schema": {"type": "object"}}]}),
        ([*START, assistant(""), user("five")], {}),
    ],
)
def test_where_more_than_the_end_changed_it_is_not_safe(
    session: foldlog.Session, busy: Busy, messages: list[Any], named: dict[str, Any]
) -> None:
    """LAST-4."""
    session.prepare(START, system=SYSTEM)
    busy.now = True
    assert session.last_good(messages, **{"system": SYSTEM, **named}) is None


def test_before_a_first_request_there_is_no_last_one(session: foldlog.Session, busy: Busy) -> None:
    """LAST-4."""
    assert session.last_good(START, system=SYSTEM) is None


def test_never_where_the_window_is_nearly_full(session: foldlog.Session, busy: Busy) -> None:
    """LAST-4: refusing comes first there."""
    request = session.prepare(START, system=SYSTEM)
    request.report_usage(input=195_000)
    busy.now = True
    assert session.last_good(MORE, system=SYSTEM) is None
    busy.now = False
    session.prepare(MORE, system=SYSTEM).report_failure("overflow", limit=200_000, used=201_000)
    busy.now = True
    assert session.last_good([*MORE, assistant("6"), user("7")], system=SYSTEM) is None


@pytest.mark.parametrize(("size", "fits"), [(50_000, True), (105_000, True), (112_000, False), (400_000, False)])
def test_never_where_what_is_new_goes_over_the_window(
    session: foldlog.Session, busy: Busy, size: int, fits: bool
) -> None:
    """LAST-4: the provider's last figure says nothing of what came since."""
    before = [user("word " * 90_000)]
    session.prepare(before, system=SYSTEM).report_usage(input=90_500)
    busy.now = True
    made = session.last_good([*before, assistant("a"), user("word " * size)], system=SYSTEM)
    assert (made is not None) is fits


def test_a_call_without_its_result_is_refused(session: foldlog.Session, busy: Busy) -> None:
    """LAST-4."""
    session.prepare(START, system=SYSTEM)
    busy.now = True
    with pytest.raises(foldlog.MessageError):
        session.last_good([*START, assistant([call("t1")]), user("no result")], system=SYSTEM)
    assert session.last_good([*START, assistant([call("t1")]), user([result("t1", "out")])], system=SYSTEM) is not None


def test_another_process_that_went_on_takes_its_place(
    engine: foldlog.Engine, session: foldlog.Session, busy: Busy
) -> None:
    """LAST-5."""
    session.prepare(START, system=SYSTEM)
    busy.now = True
    session.last_good(MORE, system=SYSTEM)
    busy.now = False
    other = foldlog.Engine(engine.log, engine._reader.count, engine._tokenizer, engine._clock)
    other.session("s", codec="anthropic", model="claude-sonnet-4-5", context_limit=200_000).prepare(
        [*START, assistant("theirs"), user("theirs too")], system=SYSTEM
    )
    request = session.prepare([*MORE, assistant("six"), user("seven")], system=SYSTEM)
    assert request.pass_number > 2
    assert not [event for event in events(engine) if isinstance(event, ev.LastGoodReplayed)]
    assert not engine.audit("s").differences


@pytest.mark.parametrize("seed", range(25))
def test_whatever_happens_meanwhile_served_bytes_stay(engine: foldlog.Engine, busy: Busy, seed: int) -> None:
    """LAST-1 to LAST-4: a host that talks, drops, flushes, rewinds and starts anew while the store comes and goes."""
    draw = random.Random(seed)
    options = {"codec": "anthropic", "model": "claude-sonnet-4-5", "context_limit": 200_000}
    session = engine.session("s", **options)
    messages: list[Any] = [user("begin")]
    last: list[bytes] = []
    for step in range(40):
        act = draw.random()
        if act < 0.12:
            busy.now = not busy.now
        elif act < 0.2 and not busy.now:
            with contextlib.suppress(foldlog.FoldlogError):
                session.reduce(str(draw.randint(1, 9)))
        elif act < 0.25 and not busy.now:
            session.flush()
        elif act < 0.29 and len(messages) > 4:
            messages = messages[: draw.randrange(1, len(messages), 2)]
        elif act < 0.33 and not busy.now:
            engine.release("s", "api")
            session = engine.session("s", **options)
        if act > 0.3:
            messages = [*messages, *turn(draw, step)]
        try:
            request: foldlog.Request | None = session.prepare(messages, system=SYSTEM)
        except StoreBusy:
            request = session.last_good(messages, system=SYSTEM)
        if request is None:
            continue
        now = list(request.messages_json)
        if request.level == "defer" and not any(reason.startswith("host_") for reason in request.reasons):
            assert now[: len(last)] == last, (step, request.reasons)
        last = now
        if draw.random() < 0.5:
            with contextlib.suppress(StoreBusy):
                request.report_usage(input=draw.randint(10, 5_000), output=5, command=f"c{step}")
    busy.now = False
    session.prepare([*messages, *turn(draw, 99)], system=SYSTEM)
    assert not engine.audit("s").differences


def turn(draw: random.Random, step: int) -> list[Any]:
    """An answer and a prompt, or a tool loop."""
    if draw.random() < 0.5:
        return [assistant(f"answer {step}"), user(f"prompt {step}")]
    id = f"t{step}-{draw.randrange(1 << 30)}"
    return [assistant([call(id)]), user([result(id, "output " * draw.randint(1, 400))])]

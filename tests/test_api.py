"""The public doors: both ways in, repeats, handles, harnesses, async twins, threads, replay."""

from __future__ import annotations

import asyncio
import copy
import datetime as dt
import inspect
import json
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

import foldlog
from foldlog.adapters.traces.generator import generate
from foldlog.adapters.traces.model import Trace
from foldlog.domain import events as ev
from support.past import summarise, talk
from support.talk import (
    START,
    Chat,
    assistant,
    call,
    differences,
    events,
    fingerprint,
    image,
    result,
    shown,
    text,
    thinking,
    use,
    user,
    words,
)

# --------------------------------------------------------------- two doors, one engine


def marks(raws: tuple[bytes, ...]) -> list[tuple[str, str]]:
    """Return (call id, drop list) of each ctx_reduce call an agent made in these messages."""
    found = []
    for raw in raws:
        message = json.loads(raw)
        blocks = message.get("content")
        for block in blocks if isinstance(blocks, list) else []:
            if block.get("name", "").endswith("ctx_reduce"):
                arguments = block.get("input", block.get("arguments"))
                found.append((block["id"], arguments["drop"]))
        for arc in message.get("tool_calls") or []:
            if arc["function"]["name"].endswith("ctx_reduce"):
                found.append((arc["id"], json.loads(arc["function"]["arguments"])["drop"]))
    return found


def play(trace: Trace, door: str, engine: foldlog.Engine, **options: Any) -> list[tuple[Any, ...]]:
    session = engine.session(door, codec=trace.codec, model=trace.model, reduce_tool=True, **options)
    played = []
    array: list[bytes] = []
    for number, step in enumerate(trace.steps):
        for id, drop in marks(step.messages):
            session.reduce(drop, command=id)
        now = step.at / 1000
        array += step.messages
        if door == "prepare":
            request = session.prepare(array, now=now)
        elif door == "advance":
            request = session.advance(step.messages, now=now)
        else:
            request = session.prepare(array, now=now) if number % 3 else session.advance(step.messages, now=now)
        if step.usage is not None:
            given = {name: count for name, count in msgspec.structs.asdict(step.usage).items() if count >= 0}
            request.report_usage(**given)
        played.append(
            (request.level, request.reasons, request.digest, request.pass_number, request.usage_estimate, request.delta)
        )
    return played


@pytest.mark.slow
@pytest.mark.rule("API-1")
@pytest.mark.parametrize("codec", ["anthropic", "openai-chat", "pi"])
def test_prepare_is_advance_behind_a_comparison(codec: Any):
    """Digests, levels, causes and deltas are equal pass by pass, whichever door each call takes."""
    trace = generate(11, 90, codec=codec)
    engine = foldlog.Engine.open("memory:", summarizer=None)
    whole, steps, mixed = (play(trace, door, engine, context_limit=60_000) for door in ("prepare", "advance", "mixed"))
    assert whole == steps
    assert whole == mixed
    assert {"defer", "hard", "soft+"} <= {level for level, *_ in whole}
    for door in ("prepare", "advance"):
        assert differences(engine, door) == []
        assert engine.audit(door).passes == len(trace.steps)


@pytest.mark.slow
@pytest.mark.rule("API-1")
def test_an_array_of_many_thousand_messages_is_taken_at_once():
    """A host may hand over a long session on its first call: no event outgrows its limit."""
    messages = [user(f"q {n}") if n % 2 == 0 else assistant(f"a {n}") for n in range(12_001)]
    engine = foldlog.Engine.open("memory:", summarizer=None)
    first = engine.session("whole").prepare(messages, now=START)
    second = engine.session("new").advance(messages, now=START)
    assert first.digest == second.digest
    assert len(events(engine.session("whole"), ev.MessagesObserved)) > 1
    third = engine.session("whole").prepare([*messages, assistant("x"), user("y")], now=START + 1)
    assert (third.level, shown(third)[-1]) == ("defer", 12_003)


@pytest.mark.rule("API-11")
def test_the_delta_is_what_is_new_or_changed():
    chat = Chat(policy={"protected_tokens": 0})
    request = chat.say(user("start"))
    whole = list(request.messages_json[2:])
    for number in range(8):
        request = chat.tool(f"t{number}", words(3_000))
        assert [m for delta in request.delta for m in delta.json] == list(request.messages_json[len(whole) + 2 :])
        whole = list(request.messages_json[2:])
    use(request, 150_000)
    chat.session.reduce("2-3")
    rebuilt = chat.turn()
    by_handle = {delta.handle: delta for delta in rebuilt.delta}
    assert rebuilt.level == "soft+"
    assert set(by_handle) >= {3, 5, 18, 19}
    assert "[dropped §2§]" in str(by_handle[3].messages)
    sent = {owner: raw for owner, raw in zip(rebuilt.built.owners, rebuilt.messages_json, strict=True) if owner}
    assert all(delta.json == (sent[handle],) for handle, delta in by_handle.items())
    assert chat.turn().delta[0].handle == 20


# --------------------------------------------------------------------------- repeats


@pytest.mark.rule("API-2")
@pytest.mark.parametrize("options", [{}, {"mode": "subagent"}, {"policy": {"compaction": False}}])
@pytest.mark.parametrize("tokens", [None, 1_000, 140_000, 175_000, 199_000])
def test_the_same_input_twice_is_the_same_request(options: dict[str, Any], tokens: int | None):
    """Convention 7, at every fill."""
    chat = Chat(**options)
    request = chat.say(user("start"))
    if tokens is not None:
        use(request, tokens)
    first = chat.tool("t", "x")
    before = fingerprint(chat.session)
    for _ in range(3):
        again = chat.again(wait=1)
        assert (again.pass_number, again.digest, again.level) == (first.pass_number, first.digest, first.level)
        assert (again.messages, again.system, again.tools) == (first.messages, first.system, first.tools)
    empty = chat.advance(wait=1)
    assert (empty.pass_number, empty.digest) == (first.pass_number, first.digest)
    assert fingerprint(chat.session) == before


@pytest.mark.rule("API-2")
def test_the_same_input_in_a_new_process_is_the_same_request(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/store.db"
    with foldlog.Engine.open(url, summarizer=None) as engine:
        chat = Chat(engine)
        chat.say(user("start"), system="one", tools=[{"name": "ctx_reduce", "input_schema": {}}])
        first = chat.tool("t", "x")
        expected = (first.pass_number, first.digest, first.messages, first.system, first.tools, first.delta)
    with foldlog.Engine.open(url, summarizer=None) as engine:
        session = engine.session("chat", context_limit=200_000)
        again = session.prepare(chat.messages, now=chat.now)
        assert (again.pass_number, again.digest, again.messages, again.system, again.tools, again.delta) == expected
        after = session.prepare([*chat.messages, assistant("ok"), user("on")], now=chat.now + 1)
        assert after.messages_json[: len(first.messages)] == again.messages_json


@pytest.mark.rule("API-2")
def test_a_held_pass_is_not_counted_twice_for_a_retry():
    chat = Chat(policy={"protected_tokens": 0})
    chat.say(user("start"))
    chat.tool("t", words(900))
    for number in range(3):
        chat.tool(f"n{number}", "x")
    use(chat.turn(), 140_000)
    chat.session.reduce("2")
    held = chat.turn()
    for _ in range(5):
        assert chat.again(wait=1).pass_number == held.pass_number
    assert chat.session.status().held == 1


@pytest.mark.rule("API-2", "PROP-1")
def test_a_summary_that_waits_for_pressure_comes_with_the_next_request_and_no_retry():
    chat = Chat(context_limit=20_000)
    talk(chat, 6, 300)
    summarise(chat, 6)
    sent = chat.tool("t", words(14_000))
    assert sent.level == "defer", "no request told of the pressure yet"
    again = chat.again(wait=1)
    assert (again.pass_number, again.digest) == (sent.pass_number, sent.digest)
    assert chat.turn().reasons == ("published",)


# ------------------------------------------------------------- what is given, what is not


@pytest.mark.rule("API-3")
def test_nothing_given_is_unchanged_and_empty_is_none():
    tools = [{"name": "Bash", "description": "d", "input_schema": {"type": "object"}}]
    chat = Chat(reduce_tool=False)
    first = chat.say(user("start"))
    assert (first.system, first.tools) == (None, None)
    given = chat.turn(system="You are one.", tools=tools)
    assert (given.system[0]["text"], given.tools) == ("You are one.", tools)
    unchanged = chat.turn()
    assert (unchanged.system[0]["text"], unchanged.tools) == ("You are one.", tools)
    none = chat.turn(system="", tools=[])
    assert (none.system, none.tools) == (None, None)


@pytest.mark.rule("API-3")
def test_messages_are_dicts_or_json_bytes_alike():
    one, two = Chat(), Chat()
    messages = [user([text("é §1§ x"), image()]), assistant([thinking(), call("t", a=1)]), user([result("t", "ok")])]
    first = one.say(*messages)
    second = two.say(*(json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() for message in messages))
    assert first.digest == second.digest
    assert two.session.expand(1, 3)[1].json == json.dumps(messages[1], separators=(",", ":")).encode()


@pytest.mark.rule("API-4")
def test_handles_are_ordinals_where_the_host_has_no_ids():
    chat = Chat()
    request = chat.session.prepare([user("a"), assistant("b"), user("c")])
    assert [delta.handle for delta in request.delta] == [1, 2, 3]
    changed = chat.session.advance(revised=[(3, user("sea"))])
    assert [delta.handle for delta in changed.delta] == [3]
    gone = chat.session.advance([user("d")], retracted=[2, 3])
    assert [m["content"] for m in gone.messages[2:3]] == ["§1§ a"]
    with pytest.raises(foldlog.MessageError):
        chat.session.advance(revised=[(2, user("x"))])


@pytest.mark.rule("API-8")
def test_the_hosts_objects_are_read_and_never_written():
    """LAW-5, T29, T51: nothing of the host's is altered, and what we hand out is not what we keep."""
    chat = Chat(policy={"protected_tokens": 0})
    tools = [{"name": "ctx_reduce", "input_schema": {}}]
    system = [text("You are one.")]
    messages = [
        user([text("start"), image()]),
        assistant([thinking(), call("t", a="x" * 2_000)]),
        user([result("t", words(3_000))]),
    ]
    kept = copy.deepcopy((messages, system, tools))
    chat.session.prepare(messages, system=system, tools=tools)
    chat.session.reduce("1-3")
    chat.session.flush()
    request = chat.session.prepare(messages, system=system, tools=tools)
    assert (messages, system, tools) == kept
    for message in request.messages:
        message.clear()
    request.system.clear()
    request.tools.clear()
    again = chat.session.prepare(messages, system=system, tools=tools)
    assert again.pass_number == request.pass_number
    assert all(again.messages)
    assert again.tools == tools


@pytest.mark.rule("API-13")
def test_times_are_epoch_seconds_or_aware_datetimes():
    zone = dt.timezone(dt.timedelta(hours=5, minutes=30))
    moment = dt.datetime(2025, 6, 15, 17, 30, tzinfo=zone)
    for number, now in enumerate((moment.timestamp(), int(moment.timestamp()), moment, moment.astimezone(dt.UTC))):
        chat = Chat(id=str(number))
        chat.session.prepare([user("a")], now=now)
        assert chat.last().now == 1_749_988_800_000
    chat = Chat()
    before = chat.session.core.clock()
    chat.session.prepare([user("a")])
    assert before <= chat.last().now <= chat.session.core.clock()


# ------------------------------------------------------------------ sessions and harnesses


@pytest.mark.rule("API-5")
def test_two_hosts_on_one_store_never_see_each_others_sessions(tmp_path: Path):
    engine = foldlog.Engine.open(f"sqlite:///{tmp_path}/store.db", summarizer=None)
    one = engine.session("s", harness="pi", codec="pi")
    two = engine.session("s", harness="opencode", codec="anthropic")
    first = one.prepare([{"role": "user", "content": "from pi", "timestamp": 1}])
    second = two.prepare([user("from opencode"), assistant("x"), user("y")])
    assert (first.pass_number, second.pass_number) == (1, 1)
    assert "from pi" not in str(second.messages)
    assert [session for session, _ in engine.sessions()] == ["opencode/s", "pi/s"]
    with pytest.raises(foldlog.UnknownTag):
        one.reduce("2")
    assert two.reduce("2").startswith("Queued")
    assert engine.replay("pi/s").digest.hex() == first.digest
    with pytest.raises(foldlog.UnknownSession) as caught:
        engine.replay("s")
    assert "opencode/s" in str(caught.value)
    assert "pi/s" in str(caught.value)
    assert [differences(engine, name) for name in ("pi/s", "opencode/s")] == [[], []]
    engine.close()


@pytest.mark.rule("API-5")
@pytest.mark.parametrize("id", ["a/b", "a b", "%41", "é" * 90, "x" * 500, "..", "a\x00b", "/", "~"])
def test_any_text_is_an_id(id: str):
    engine = foldlog.Engine.open("memory:", summarizer=None)
    request = engine.session(id, harness="h/x").prepare([user("a")])
    other = engine.session(id + "2", harness="h/x").prepare([user("b")])
    assert request.digest != other.digest
    assert len(engine.sessions()) == 2
    assert {engine.replay(name).digest.hex() for name, _ in engine.sessions()} == {request.digest, other.digest}


@pytest.mark.rule("API-5")
def test_a_bare_id_is_enough_where_it_fits_one():
    engine = foldlog.Engine.open("memory:", summarizer=None)
    request = engine.session("only/one", harness="pi").prepare([user("a")])
    assert engine.replay("only/one").digest.hex() == request.digest
    for wrong in ("only", "one", "pi", "pi/only", "", "nothing", None, 5, b"only/one"):
        with pytest.raises(foldlog.FoldlogError):
            engine.replay(wrong)  # type: ignore[arg-type]


@pytest.mark.rule("API-15")
def test_a_session_keeps_its_codec():
    engine = foldlog.Engine.open("memory:", summarizer=None)
    engine.session("s", codec="pi").prepare([{"role": "user", "content": "a", "timestamp": 1}])
    with pytest.raises(foldlog.OptionError):
        engine.session("s", codec="anthropic")
    assert engine.session("s").status().codec == "pi"


@pytest.mark.rule("API-14")
def test_kinds_of_failure():
    chat = Chat()
    for kind in ("not_processed", "aborted", "broken", "unknown"):
        chat.turn().report_failure(kind, detail="why")
        assert events(chat.session, ev.RequestOutcome)[-1].outcome == kind
    request = chat.turn()
    request.report_failure("overflow", limit=100_000, used=120_000)
    stored = events(chat.session, ev.OverflowReported)[-1]
    assert (stored.limit, stored.used) == (100_000, 120_000)
    before = fingerprint(chat.session)
    for wrong in ("", "Overflow", None, 5, ["overflow"], "answered"):
        with pytest.raises(foldlog.InputError):
            request.report_failure(wrong)  # type: ignore[arg-type]
    assert fingerprint(chat.session) == before


@pytest.mark.rule("API-12")
def test_every_past_request_can_be_opened_again_byte_for_byte():
    chat = Chat(policy={"protected_tokens": 0})
    sent = {}
    request = chat.say(user("start"), system="one")
    for number in range(12):
        sent[request.pass_number] = (request.messages_json, request.built.system, request.digest)
        use(request, 150_000 if number == 8 else 1_000)
        if number == 7:
            chat.session.reduce("2-4")
        request = chat.tool(f"t{number}", words(2_000), n=number)
    assert {type(event).__name__ for event in events(chat.session, ev.Pass)} >= {"PassDeferred", "ConversationRebuilt"}
    for number, (messages, system, digest) in sent.items():
        built = chat.engine.replay("chat", number)
        assert (built.messages, built.system, built.digest.hex()) == (messages, system, digest)
    with pytest.raises(foldlog.UnknownTag):
        chat.engine.replay("chat", 99)
    old = chat.session.core.hot().state.passes
    assert chat.engine.replay("chat").digest.hex() == request.digest
    assert chat.session.core.hot().state.passes == old


def test_a_request_can_be_built_after_the_session_moved_on():
    """API-12."""
    chat = Chat(policy={"protected_tokens": 0})
    first = chat.say(user("start " + words(3_000)))
    chat.session.reduce("1")
    chat.session.flush()
    later = chat.turn()
    assert "[dropped §1§]" in str(later.messages)
    assert "§1§ start" in str(first.messages)
    assert chat.engine.replay("chat", 1).messages == first.messages_json


def test_a_fork_of_a_session_that_never_was_used():
    """TAG-7."""
    engine = foldlog.Engine.open("memory:", summarizer=None)
    fork = engine.session("a").fork("b")
    assert fork.prepare([user("x")]).level == "hard"
    assert differences(engine, "b") == []
    with pytest.raises(foldlog.InputError):
        engine.session("a").fork("b")
    for wrong in (None, 5, "", ["c"]):
        with pytest.raises(foldlog.InputError):
            engine.session("a").fork(wrong)  # type: ignore[arg-type]
    for wrong in (0, 99, "x", True, 1.0):
        with pytest.raises(foldlog.InputError):
            engine.session("a").fork("c", at=wrong)  # type: ignore[arg-type]
    assert [name for name, _ in engine.sessions()] == ["api/a", "api/b"]


# ------------------------------------------------------------------------ async, threads


@pytest.mark.rule("API-6")
def test_async_twins_do_the_same():
    async def asked() -> tuple[Any, ...]:
        session = foldlog.Engine.open("memory:", summarizer=None).session("a", context_limit=200_000)
        request = await session.aprepare([user("start"), assistant("x"), user("y")], system="one", now=START)
        await request.areport_usage(input=1_000)
        reply = await session.areduce("1", command="c")
        await session.aflush()
        second = await session.aadvance([assistant("z"), user("w")], now=START + 1)
        await second.areport_failure("aborted", detail="stopped")
        await session.areport_cache_loss("gone")
        fork = await session.afork("b")
        originals = await session.aexpand("1")
        return request.digest, reply, second.digest, second.level, originals[0].text, (await fork.astatus()).tags

    session = foldlog.Engine.open("memory:", summarizer=None).session("a", context_limit=200_000)
    request = session.prepare([user("start"), assistant("x"), user("y")], system="one", now=START)
    request.report_usage(input=1_000)
    reply = session.reduce("1", command="c")
    session.flush()
    second = session.advance([assistant("z"), user("w")], now=START + 1)
    second.report_failure("aborted", detail="stopped")
    session.report_cache_loss("gone")
    fork = session.fork("b")
    expected = (request.digest, reply, second.digest, second.level, session.expand("1")[0].text, fork.status().tags)
    assert asyncio.run(asked()) == expected


@pytest.mark.rule("API-6")
def test_every_public_call_has_a_twin():
    """Every method of a session and a request that reaches the store; what adapters call apart."""
    for kind, inner in ((foldlog.Session, {"build", "watch"}), (foldlog.Request, set[str]())):
        calls = {name for name, value in vars(kind).items() if inspect.isfunction(value) and name[0] != "_"} - inner
        twins = {name for name in calls if inspect.iscoroutinefunction(getattr(kind, name))}
        assert twins == {f"a{name}" for name in calls - twins}
        assert calls - twins


@pytest.mark.rule("API-6")
def test_a_request_is_reopened_and_replayed_from_a_loop():
    async def asked() -> None:
        session = foldlog.Engine.open("memory:", summarizer=None).session("a", context_limit=200_000)
        request = await session.aprepare([user("start")], now=START)
        assert (await session.areopen()).digest == (await session.areopen(1)).digest == request.digest
        replayed = await session.alast_good([user("start"), assistant("x"), user("y")], now=START + 1)
        assert replayed is not None
        assert replayed.reasons == ("last_good",)

    asyncio.run(asked())


@pytest.mark.rule("API-6")
def test_many_sessions_at_once_from_one_loop():
    async def one(engine: foldlog.Engine, number: int) -> str:
        session = engine.session(f"s{number % 4}")
        request = await session.aprepare([user("same")], now=START)
        return request.digest

    async def asked() -> set[str]:
        engine = foldlog.Engine.open("memory:", summarizer=None)
        return set(await asyncio.gather(*(one(engine, number) for number in range(24))))

    assert len(asyncio.run(asked())) == 1


@pytest.mark.slow
@pytest.mark.rule("API-7")
@pytest.mark.parametrize("shared", [True, False], ids=["one-engine", "engine-each"])
def test_threads_hammering_one_session(tmp_path: Path, shared: bool):
    """No call is lost or doubled, each request is one that was stored, and the log holds."""
    url = f"sqlite:///{tmp_path}/store.db"
    first = foldlog.Engine.open(url, summarizer=None)
    first.session("s", context_limit=200_000).prepare([user("start")])
    engines = [first if shared else foldlog.Engine.open(url, summarizer=None) for _ in range(4)]
    failures: list[BaseException] = []
    requests: list[tuple[int, str]] = []
    go = threading.Barrier(4)

    def work(number: int) -> None:
        session = engines[number].session("s", context_limit=200_000)
        go.wait()
        for turn in range(6):
            for _ in range(40):
                try:
                    request = session.advance([assistant(f"a {number} {turn}"), user(f"q {number} {turn}")])
                    break
                except (foldlog.Conflict, foldlog.StoreBusy):
                    continue  # said to be recoverable: the same call again
            else:
                raise AssertionError("never came through")
            requests.append((request.pass_number, request.digest))
            for attempt in (
                lambda: request.report_usage(input=100 + turn, command=f"u{number}-{turn}"),  # noqa: B023
                lambda: session.reduce("1", command=f"r{number}-{turn}"),  # noqa: B023
            ):
                for _ in range(40):
                    try:
                        attempt()
                        break
                    except (foldlog.Conflict, foldlog.StoreBusy):
                        continue
            session.expand(1)
            session.status()
            assert request.messages

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - a thread's failure is the test's
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len({number for number, _ in requests}) == len(requests) == 24
    with foldlog.Engine.open(url, summarizer=None) as fresh:
        state = fresh.session("s").core.hot().state
        assert len(state.path) == 1 + 2 * 24
        said = [reply.text for reply in fresh.session("s").expand(1, 49)]
        assert len(set(said)) == 49
        for number, digest in requests:
            assert fresh.replay("s", number).digest.hex() == digest
        assert len(events(fresh.session("s"), ev.UsageReported)) == 24
        assert len(events(fresh.session("s"), ev.DropsQueued)) == 1
        assert differences(fresh, "s") == []
    for engine in set(engines):
        engine.close()


@pytest.mark.rule("API-10")
def test_commands_with_an_id_are_applied_once():
    chat = Chat()
    request = chat.say(user("start"))
    calls = [
        lambda: request.report_usage(input=5, command="u"),
        lambda: request.report_failure("aborted", command="f"),
        lambda: request.report_failure("overflow", limit=5_000, command="o"),
        lambda: chat.session.reduce("1", command="r"),
        lambda: chat.session.flush(command="x"),
        lambda: chat.session.report_cache_loss("gone", command="l"),
    ]
    for one in calls:
        one()
        before = fingerprint(chat.session)
        one()
        assert fingerprint(chat.session) == before
    for wrong in (5, ["x"], None, b"x"):
        with pytest.raises(foldlog.InputError):
            chat.session.flush(command=wrong)  # type: ignore[arg-type]


def test_the_package_offers_what_it_says():
    """API-9: the errors a program catches are there by name."""
    assert all(getattr(foldlog, name) is not None for name in foldlog.__all__)
    assert set(foldlog.__all__) <= set(dir(foldlog))
    with pytest.raises(AttributeError):
        _ = foldlog.nothing
    assert issubclass(foldlog.Refused, foldlog.FoldlogError)


@pytest.mark.rule("API-16")
def test_a_new_process_can_report_on_an_earlier_request(tmp_path):
    """A request outlives the process that made it: reopened, it says the same and takes its usage."""
    url = f"sqlite:///{tmp_path / 'x.db'}"
    with foldlog.Engine.open(url, summarizer=None) as engine:
        first = engine.session("s", context_limit=100_000).prepare([{"role": "user", "content": "go"}])
        sent = first.messages_json
    with foldlog.Engine.open(url, summarizer=None) as engine:
        session = engine.session("s", context_limit=100_000)
        again = session.reopen()
        assert (again.pass_number, again.digest, again.messages_json) == (1, first.digest, sent)
        again.report_usage(input=70_000)
        assert session.status().usage_tokens == 70_000
        with pytest.raises(foldlog.UnknownTag):
            session.reopen(9)

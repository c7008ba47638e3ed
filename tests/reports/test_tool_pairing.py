"""Reports of calls and results that were parted, each as a kind: several inputs (``specs/reports.md``)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from checker import anthropic, broken_rules, openai, responses

import foldlog
from foldlog.adapters.models.summarizers import Anthropic, Job, OpenAI, failure, http
from support.past import WINDOW, Scripted, opened
from support.talk import Chat, assistant, call, differences, fingerprint, result, text, use, user, words

# ---------------------------------------------------------------- steps of a tool loop, on each wire


def anthropic_step(n: int, wide: int) -> list[dict[str, Any]]:
    ids = [f"t{n}_{i}" for i in range(wide)]
    return [
        assistant([text(f"step {n}"), *(call(id, command=f"make {id}") for id in ids)]),
        user([result(id, f"out {id} " + words(600 // wide)) for id in ids]),
    ]


def chat_step(n: int, wide: int) -> list[dict[str, Any]]:
    ids = [f"t{n}_{i}" for i in range(wide)]
    arcs = [{"id": id, "type": "function", "function": {"name": "sh", "arguments": "{}"}} for id in ids]
    results = [{"role": "tool", "tool_call_id": id, "content": f"out {id} " + words(600 // wide)} for id in ids]
    return [{"role": "assistant", "content": None, "tool_calls": arcs}, *results]


def items_step(n: int, wide: int) -> list[dict[str, Any]]:
    ids = [f"t{n}_{i}" for i in range(wide)]
    calls = [{"type": "function_call", "call_id": id, "name": "sh", "arguments": "{}"} for id in ids]
    outputs = [
        {"type": "function_call_output", "call_id": id, "output": f"out {id} " + words(600 // wide)} for id in ids
    ]
    return [*calls, *outputs]


STEPS = {"anthropic": anthropic_step, "openai-chat": chat_step, "openai-responses": items_step}


def begin(codec: str, said: str) -> dict[str, Any]:
    return {"type": "message", **user(said)} if codec == "openai-responses" else user(said)


def faults(codec: str, request: foldlog.Request) -> set[str]:
    """Return the rules of its provider that a request breaks."""
    if codec == "anthropic":
        return broken_rules(anthropic.check({"messages": request.messages}))
    if codec == "openai-chat":
        return broken_rules(openai.check({"messages": request.messages}))
    return broken_rules(responses.check({"input": request.messages, "instructions": request.system}))


def calls_and_results(codec: str, request: foldlog.Request) -> tuple[list[str], list[str]]:
    """Return the ids of the calls and of the results of a request, in order."""
    calls: list[str] = []
    results: list[str] = []
    for message in request.messages:
        blocks = message["content"] if isinstance(message.get("content"), list) else []
        for one in [message, *blocks, *(message.get("tool_calls") or ())]:
            kind = one.get("type")
            if kind in ("tool_use", "function"):
                calls.append(one["id"])
            elif kind == "function_call":
                calls.append(one["call_id"])
            elif kind in ("tool_result", "function_call_output") or one.get("role") == "tool":
                results.append(one.get("tool_use_id") or one.get("call_id") or one["tool_call_id"])
    return calls, results


# ---------------------------------------------------------------- TP-01, TP-09, TP-10: where a cut falls


@pytest.mark.slow
@pytest.mark.rule("TP-01", "TP-09", "TP-10", "INV-5", "HIST-4", "PROP-2")
@pytest.mark.parametrize("codec", list(STEPS))
@pytest.mark.parametrize("wide", [1, 2, 5])
@pytest.mark.parametrize("pieces", [1, 3])
def test_no_cut_parts_a_call_from_its_result(codec: str, wide: int, pieces: int):
    """Folds and the deferred passes behind them, at whatever place a summary ends: each request is valid, and the
    part that was kept has as many results as calls, none before its call.
    """
    host = Chat(opened("memory:", Scripted(pieces)), codec=codec, context_limit=WINDOW)
    request = host.say(begin(codec, "begin"))
    levels: list[str] = []
    cuts = set()
    for number in range(45):
        new = STEPS[codec](number, wide)
        if number % 9 == 8 and codec == "anthropic":
            new[-1]["content"].append(text(f"and mind {number}"))
        request = host.say(*new)
        request.report_usage(input=request.usage_estimate)
        levels.append(request.level)
        cuts.add(host.state.cut)
        assert faults(codec, request) == set(), (number, request.level)
        calls, results = calls_and_results(codec, request)
        assert sorted(calls) == sorted(results)
        assert len(set(calls)) == len(calls)
    assert len(cuts) > 2
    assert {"defer", "soft"} <= set(levels) or {"defer", "hard"} <= set(levels)
    assert differences(host.engine) == []


@pytest.mark.rule("TP-09", "DROP-3", "PROP-3")
@pytest.mark.parametrize("codec", list(STEPS))
@pytest.mark.parametrize("kept", [0, 1, 3, 8])
def test_whatever_is_dropped_pairs_stay_pairs(codec: str, kept: int):
    """All but the newest few marked: what is left of a pair is both halves or neither."""
    host = Chat(codec=codec, policy={"protected_tokens": 0})
    request = host.say(begin(codec, "begin"))
    for number in range(30):
        request = host.say(*STEPS[codec](number, 1 + number % 3))
    last = len(host.state.tags) - kept
    host.session.reduce(f"2-{last}")
    host.session.flush()
    request = host.say(*STEPS[codec](99, 1))
    assert faults(codec, request) == set()
    calls, results = calls_and_results(codec, request)
    assert calls == results or sorted(calls) == sorted(results)
    use(request, 1_000)
    assert faults(codec, host.say(*STEPS[codec](100, 2))) == set()


# ---------------------------------------------------------------- TP-02, TP-04: an id used twice


@pytest.mark.rule("TP-02", "TP-04", "TAG-11")
@pytest.mark.parametrize("how", ["message twice", "id again", "id again, later", "id twice in one"])
@pytest.mark.parametrize("model", ["a", "b"])
def test_an_id_that_stands_twice_is_named_and_the_session_goes_on(how: str, model: str):
    """After a change of model the host stores a call a second time. The provider would refuse it without a word on
    where; here the place is named, nothing of the session changes, and the mended array is served as ever.
    """
    host = Chat(model="a")
    host.say(user("start"))
    for number in range(4):
        before = host.tool(f"t{number}", f"out {number}")
    host.reopen(model=model)
    twice = {
        "message twice": [host.messages[-2], host.messages[-1]],
        "id again": [assistant([call("t3")]), user([result("t3", "other")])],
        "id again, later": [assistant([call("t0", name="Read")]), user([result("t0", "other")])],
        "id twice in one": [assistant([call("n"), call("n")]), user([result("n", "1"), result("n", "2")])],
    }[how]
    good = list(host.messages)
    state = fingerprint(host.session)
    host.messages += twice
    with pytest.raises(foldlog.MessageError) as caught:
        host.again()
    assert caught.value.where.startswith("messages[")
    assert fingerprint(host.session) == state
    host.messages = good
    after = host.tool("fine", "x")
    assert after.level == ("defer" if model == "a" else "hard")
    assert after.messages_json[2 : len(before.messages_json)] == before.messages_json[2:]


@pytest.mark.rule("TP-02", "TP-04", "TAG-11")
@pytest.mark.parametrize("model", ["a", "b"])
@pytest.mark.parametrize("times", [2, 5])
def test_where_the_wire_allows_it_each_pair_is_its_own(model: str, times: int):
    """On chat wires ids may repeat from turn to turn: numbers and drops are of one pair, never of the id."""
    host = Chat(codec="openai-chat", model="a", policy={"protected_tokens": 0})
    host.say(user("start"))
    for number in range(times):
        arc = {"id": "X", "type": "function", "function": {"name": "Bash", "arguments": json.dumps({"n": number})}}
        host.say(
            {"role": "assistant", "content": None, "tool_calls": [arc]},
            {"role": "tool", "tool_call_id": "X", "content": f"out {number} " + words(500)},
        )
    host.reopen(model=model)
    host.say({"role": "assistant", "content": "ok"}, user("next"))
    host.session.reduce("2")
    host.session.flush()
    request = host.say({"role": "assistant", "content": "ok"}, user("next"))
    outputs = [m["content"][:9] for m in request.messages if m["role"] == "tool"]
    assert [f"§{number + 2}§ out {number}" for number in range(1, times)] == outputs[-(times - 1) :]
    assert not any("out 0" in output for output in outputs)


# ---------------------------------------------------------------- TP-12: results first


@pytest.mark.rule("TP-12", "ANT-17")
@pytest.mark.parametrize("behind", [[], ["one"], ["one", "two"], ["<system-reminder>x</system-reminder>"]])
@pytest.mark.parametrize("own", [True, False], ids=["in a message of its own", "beside the results"])
@pytest.mark.parametrize("wide", [1, 3])
def test_results_stand_before_what_is_said_beside_them(behind: list[str], own: bool, wide: int):
    """Texts beside or behind results, numbers, reminders and drops in them: results lead their turn, in one piece."""
    host = Chat(context_limit=1_000_000, policy={"protected_tokens": 0})
    request = host.say(user("start"))
    for number in range(16):
        ids = [f"t{number}_{i}" for i in range(wide)]
        host.messages.append(assistant([call(id) for id in ids]))
        results = [result(id, f"{id} " + words(6_000 // wide)) for id in ids]
        said = [text(one) for one in behind]
        host.messages += [user(results), user(said)] if own and said else [user([*results, *said])]
        if number == 10:
            host.session.reduce("2-9")
            host.session.flush()
        request = host.again()
        assert broken_rules(anthropic.check({"messages": request.messages})) == set()


@pytest.mark.rule("TP-12")
@pytest.mark.parametrize("missing", [1, 2])
@pytest.mark.parametrize("place", ["end", "middle"])
def test_a_turn_that_lacks_results_is_not_sent(missing: int, place: str):
    host = Chat()
    host.say(user("start"))
    before = fingerprint(host.session)
    host.messages += [assistant([call("a"), call("b"), call("c")]), user([result(i, "x") for i in "abc"[missing:]])]
    if place == "middle":
        host.messages += [assistant("ok"), user("next")]
    with pytest.raises(foldlog.MessageError) as caught:
        host.again()
    assert caught.value.where.startswith("messages[1]")
    assert fingerprint(host.session) == before


# ---------------------------------------------------------------- TP-13: what a summariser is sent


@pytest.mark.rule("TP-13", "HIST-16", "HIST-17")
@pytest.mark.parametrize("codec", list(STEPS))
@pytest.mark.parametrize("maker", [OpenAI, Anthropic])
def test_a_summariser_gets_plain_text_and_no_blocks_of_tools(
    codec: str, maker: type[OpenAI | Anthropic], monkeypatch: pytest.MonkeyPatch
):
    """Calls and results are lines of its text; the request has no tools, so it holds no blocks of any either."""
    summarizer = Scripted()
    host = Chat(opened("memory:", summarizer), codec=codec, context_limit=WINDOW)
    request = host.say(begin(codec, "begin"))
    for number in range(40):
        request = host.say(*STEPS[codec](number, 1 + number % 3))
        request.report_usage(input=request.usage_estimate)
    assert summarizer.jobs
    for job in summarizer.jobs:
        body = sent(maker, job, monkeypatch)
        assert "tools" not in body
        assert all(isinstance(message["content"], str) for message in body["messages"])
        assert {message["role"] for message in body["messages"]} <= {"system", "user"}


def sent(maker: type[OpenAI | Anthropic], job: Job, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the body a model adapter would send for a job."""
    made: list[dict[str, Any]] = []

    def ask(_to: Any, _headers: Any, body: dict[str, Any]) -> Any:
        made.append(body)
        raise failure("refused", "asked")

    monkeypatch.setattr(http, "ask", ask)
    with pytest.raises(foldlog.FoldlogError, match="asked"):
        maker(model="m", base_url="http://127.0.0.1:9", key_env="")(job)
    return made[0]

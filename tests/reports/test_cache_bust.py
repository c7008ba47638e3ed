"""Reports of caches lost for nothing, each as a kind: several inputs (``specs/reports.md``)."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from checker.anthropic import check

import foldlog
from foldlog.adapters.config import Config
from foldlog.adapters.models.tokens import tokenizer
from foldlog.domain import events as ev
from support.past import WINDOW, Scripted, opened
from support.proxy import Provider, Proxy, said, serving
from support.proxy import assistant as answer
from support.proxy import user as prompt
from support.talk import Chat, assistant, call, events, image, result, text, thinking, use, user, words


def extends(before: foldlog.Request, after: foldlog.Request) -> bool:
    """Whether the later request holds all of the earlier one, byte for byte, at its beginning."""
    return after.messages_json[: len(before.messages_json)] == before.messages_json


# --------------------------------------------------------------- CB-07: what is said to the agent


@pytest.mark.slow
@pytest.mark.rule("CB-07", "SAY-1", "SAY-2", "SAY-3", "PROP-1")
@pytest.mark.parametrize("size", [500, 3_000, 9_000])
@pytest.mark.parametrize("door", ["prompts", "tools", "both"])
def test_what_was_said_to_the_agent_is_never_taken_back(size: int, door: str):
    """Lists of what may go stand behind the newest message only, stay there for good, and come seldom."""
    host = Chat(context_limit=1_000_000, policy={"cache_ttl": "never"})
    before = host.say(user("start"))
    told = []
    for number in range(40):
        use(before, 300_000 if number % 2 else 100_000)
        if door == "tools" or (door == "both" and number % 3):
            after = host.tool(f"t{number}", words(size) + str(number))
        else:
            after = host.say(assistant(words(size)), user(f"next {number}"), wait=400)
        assert after.level == "defer"
        assert extends(before, after)
        told.append(b"".join(after.messages_json).count(b"<system-reminder>"))
        before = after
    fresh = sum(b > a for a, b in pairwise(told))
    assert fresh <= 40 * size // 25_000 + 4, "not with every turn: as it grows, and as it grows louder"
    assert told == sorted(told)


# --------------------------------------------------------------- CB-06: what comes back as it was served


@pytest.mark.slow
@pytest.mark.rule("CB-06", "TAG-9", "PROP-1")
@pytest.mark.parametrize("times", [1, 3, 8])
@pytest.mark.parametrize("what", ["texts", "results", "nudged"])
def test_what_a_host_hands_back_as_it_was_served_does_not_grow(times: int, what: str):
    """A host whose messages are the served ones, numbers and reminders in them: nothing is said twice."""
    host = Chat(context_limit=1_000_000)
    host.say(user("start"))
    size = 6_000 if what == "nudged" else 30
    for number in range(14):
        if what == "texts":
            host.turn(f"next {number}")
        else:
            host.tool(f"t{number}", words(size) + str(number))
    request = host.again()
    sizes = []
    for number in range(times):
        host.messages = [json.loads(raw) for raw in request.messages_json[2:]]
        host.again()
        request = host.turn(f"and {number}")
        said = re.sub(r"§\d+§", "§0§", b"".join(request.messages_json[2 : 2 + 29]).decode())
        sizes.append((said.count("§"), said.count("<system-reminder>"), len(said)))
    assert len(set(sizes)) == 1
    assert "§0§ §" not in said


# --------------------------------------------------------------- CB-08: mark now, drop later


@pytest.mark.rule("CB-08", "REDUCE-6", "PERM-1")
@pytest.mark.parametrize("share", [5, 20, 40, 64])
@pytest.mark.parametrize("marks", [1, 12])
def test_marks_wait_for_pressure(share: int, marks: int):
    """However many are made, however full it is below the threshold, they change nothing; then all go at once."""
    host = Chat(policy={"protected_tokens": 0})
    before = host.say(user("start"))
    for number in range(marks + 4):
        before = host.tool(f"t{number}", words(8_000) + str(number))
    use(before, 200_000 * share // 100)
    for number in range(marks):
        host.session.reduce(str(2 + number))
        after = host.turn()
        use(after, 200_000 * share // 100)
        assert after.level == "defer"
        assert extends(before, after)
        before = after
    use(host.turn(), 140_000)
    assert host.turn().level == "soft+"
    assert host.session.status().dropped == marks


# --------------------------------------------------------------- CB-09: a clock in the system text


@pytest.mark.rule("CB-09", "FOLD-2", "FOLD-3")
@pytest.mark.parametrize(
    "days",
    [
        ["Monday", "Monday", "Monday", "Tuesday", "Tuesday", "Tuesday"],
        ["2026-01-31"] * 5 + ["2026-02-01"] * 5,
        ["12:00:01", "12:00:02", "12:00:03", "12:00:04"],
    ],
    ids=["day", "date", "clock"],
)
def test_a_date_in_the_system_text_costs_one_named_fold_each_time_it_changes(days: list[str]):
    """The text stands before everything, so its cache is lost: the fold rides it, says so, and comes no oftener."""
    host = Chat()
    host.messages = [user("start")]
    levels, reasons = [], []
    for number, day in enumerate(days):
        host.messages += [assistant("ok"), user(f"step {number}")]
        request = host.again(system=f"You work. Today is {day}.")
        levels.append(request.level)
        reasons.append(request.reasons)
    changed = [True, *(a != b for a, b in pairwise(days))]
    assert levels == ["hard" if new else "defer" for new in changed]
    assert all(("system_hash" in found) is new for found, new in zip(reasons[1:], changed[1:], strict=True))


@pytest.mark.rule("CB-09")
@pytest.mark.parametrize("wait", [10.0, 3_600.0, 86_400.0, 30 * 86_400.0])
def test_nothing_of_ours_in_the_prefix_depends_on_the_clock(wait: float):
    """The head and the guidance are the same at midnight, and a month later."""
    heads = []
    for pause in (10.0, wait):
        host = Chat(policy={"cache_ttl": "never"})
        host.say(user("start"), system="You work.")
        use(host.turn(system="You work."), 5_000)
        after = host.turn(wait=pause, system="You work.")
        heads.append((after.system, after.messages_json[:5]))
        assert after.level == "defer"
    assert heads[0] == heads[1]


# --------------------------------------------------------------- CB-11: what a summary costs


@pytest.mark.slow
@pytest.mark.rule("CB-11", "HIST-9", "HIST-20")
@pytest.mark.parametrize("steps", [100, 200])
def test_a_summariser_reads_each_message_once_however_long_the_session(steps: int):
    """A run reads a bounded stretch of raw history; all runs together read no message twice."""
    summarizer = Scripted()
    engine = opened("memory:", summarizer)
    host = Chat(engine, context_limit=WINDOW)
    request = host.say(user("begin"))
    for number in range(steps):
        request = host.say(assistant(f"answer {number} {words(120)}"), user(f"prompt {number} {words(20)}"))
        request.report_usage(input=request.usage_estimate)
    count = tokenizer()
    assert len(summarizer.jobs) > 1
    for one, other in pairwise(summarizer.jobs):
        assert other.start > one.start
        assert other.start >= one.end - 1, "at most its last piece is read again"
    whole = sum(count(json.dumps(message)) for message in host.messages)
    read = sum(count(job.chunk) for job in summarizer.jobs)
    assert read < whole * 1.2
    assert max(count(job.chunk) for job in summarizer.jobs) < WINDOW


# --------------------------------------------------------------- CB-14: a process a turn

BEGIN = {"role": "user", "content": "Look at notes"}


def chat_step(n: int) -> list[dict[str, Any]]:
    function = {"name": "read", "arguments": json.dumps({"path": f"/f{n}"})}
    arc = {"id": f"c{n}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [arc]},
        {"role": "tool", "tool_call_id": f"c{n}", "content": words(50) + str(n)},
    ]


def anthropic_step(n: int) -> list[dict[str, Any]]:
    return [
        assistant([thinking(), text(f"I look {n}."), call(f"t{n}", "Read", path=f"/f{n}")]),
        user([result(f"t{n}", [text(words(50) + str(n)), image()])]),
    ]


def items_step(n: int) -> list[dict[str, Any]]:
    return [
        {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": "x" * 200},
        {"type": "function_call", "id": f"fc_{n}", "call_id": f"c{n}", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": f"c{n}", "output": words(50) + str(n)},
    ]


def pi_step(n: int) -> list[dict[str, Any]]:
    arc = {"type": "toolCall", "id": f"t{n}", "name": "read", "arguments": {"path": f"/f{n}"}}
    return [
        {"role": "assistant", "content": [text("I look."), arc], "stopReason": "toolUse", "timestamp": 1_000 + n},
        {
            "role": "toolResult", "toolCallId": f"t{n}", "toolName": "read", "isError": False, "timestamp": 2_000 + n,
            "content": [text(words(50) + str(n))],
        },
    ]  # fmt: skip


STEPS = {"anthropic": anthropic_step, "openai-chat": chat_step, "openai-responses": items_step, "pi": pi_step}


@pytest.mark.rule("CB-14", "API-2", "LAW-1")
@pytest.mark.parametrize("codec", list(STEPS))
def test_a_process_a_turn_serves_the_same_bytes(codec: str, tmp_path: Path):
    """Each turn is a new process on the stored session, drops and a fold in between: what was sent stays as it was."""
    url = f"sqlite:///{tmp_path}/s.db"
    sent: list[Any] = [BEGIN if codec != "openai-responses" else {"type": "message", **BEGIN}]
    before: foldlog.Request | None = None
    levels = []
    for number in range(9):
        with_lanes = {"context_limit": 200_000, "codec": codec, "policy": {"protected_tokens": 0}}
        engine = foldlog.Engine.open(url, summarizer=None)
        session = engine.session("headless", **with_lanes)
        if number:
            sent += STEPS[codec](number)
        if number == 5:
            session.reduce("2-3")
            session.flush()
        after = session.prepare(sent, now=1_750_000_000 + 20 * number)
        use(after, 20_000)
        levels.append(after.level)
        if before is not None and after.level == "defer":
            assert extends(before, after)
        before = after
        engine.close()
    assert levels == ["hard", *["defer"] * 4, "soft+", *["defer"] * 3]


@pytest.mark.rule("CB-14", "PROXY-9")
@pytest.mark.parametrize("named", [True, False])
def test_a_proxy_a_turn_serves_the_same_bytes(named: bool, provider: Provider, config: Config, tmp_path: Path):
    """The same through the proxy, whether or not the client names its session."""
    url = f"sqlite:///{tmp_path}/s.db"
    messages: list[Any] = [prompt("look")]
    for number in range(5):
        with serving(config, lambda: foldlog.Engine.open(url, summarizer=None)) as proxy:
            if named:
                assert proxy.ask(messages).status_code == 200
            else:
                raw = {
                    "model": "claude-x",
                    "max_tokens": 9,
                    "stream": True,
                    "system": "You work.",
                    "messages": messages,
                }
                assert proxy.client.post("/v1/messages", json=raw, headers={"x-api-key": "k"}).status_code == 200
            proxy.settle()
        messages = [*messages, answer("ok"), prompt(f"and {number}")]
    bodies = [bare(seen.json["messages"]) for seen in provider.seen]
    assert len(bodies) == 5
    for one, other in pairwise(bodies):
        assert other[: len(one)] == one


def bare(value: Any) -> Any:
    """Return a body's value without its cache marks."""
    if isinstance(value, list):
        return [bare(one) for one in value]
    if isinstance(value, dict):
        return {key: bare(one) for key, one in value.items() if key != "cache_control"}
    return value


# --------------------------------------------------------------- CB-12: a reminder that moves on resume

REMINDER = "<system-reminder>\nToday is Monday.\n</system-reminder>"


@pytest.mark.rule("CB-12", "IDENT-2", "IDENT-6")
@pytest.mark.parametrize("first", ["gone", "behind", "other", "in front"])
@pytest.mark.parametrize("then", [True, False])
def test_a_reminder_that_moves_costs_only_what_it_stands_in(first: str, then: bool):
    """Wherever the host's own reminder goes, all it did not touch keeps its numbers and its bytes."""
    host = Chat()
    host.say(user([text(REMINDER), text("Look at notes")]))
    for number in range(5):
        before = host.tool(f"t{number}", words(30) + str(number))
    host.messages[0] = user(
        {
            "gone": [text("Look at notes")],
            "behind": [text("Look at notes"), text(REMINDER)],
            "other": [text(REMINDER.replace("Monday", "Tuesday")), text("Look at notes")],
            "in front": [text("Mind the gap."), text(REMINDER), text("Look at notes")],
        }[first]
    )
    after = host.say(assistant("ok"), user([text(REMINDER), text("go")] if then else "go"))
    assert after.level == "defer"
    assert after.messages_json[3 : len(before.messages_json)] == before.messages_json[3:]
    assert extends(after, host.turn())


# --------------------------------------------------------------- CB-16: why was it lost


@pytest.mark.rule("CB-16", "PROXY-47")
@pytest.mark.parametrize(
    ("how", "cause"),
    [("nothing", "the provider"), ("system", "host_system"), ("edit", "host_revised"), ("flush", "flush")],
)
def test_each_lost_cache_has_a_cause(how: str, cause: str, provider: Provider, proxy: Proxy):
    """A full rewrite is told with who is to blame; what nobody here did is the provider's, and counted as such."""
    first = [prompt("look"), answer("I look"), prompt("and this")]
    provider.script = [
        said(input_tokens=0, cache_creation_input_tokens=20_000),
        said(input_tokens=10, cache_creation_input_tokens=20_090),
    ]
    proxy.ask(first)
    if how == "flush":
        assert proxy.page("/foldlog/tools/ctx_reduce", json={"arguments": {"drop": "1"}, "session": "s1"}).is_success
        proxy.settle()
        proxy.door.gate._engine.session("s1", harness="claude-code", context_limit=200_000).flush()
    then = list(first)
    if how == "edit":
        then[0] = prompt("look at something else")
    given = {"system": "You work otherwise."} if how == "system" else {}
    proxy.ask([*then, answer("ok"), prompt("on")], **given)
    last = proxy.moments()[-1]
    assert last["lost"] > 0
    assert cause in last["cause"], last


# --------------------------------------------------------------- CB-19: cutoffs counted from the end


@pytest.mark.rule("CB-19", "LANE-2", "PERM-1", "DROP-11")
@pytest.mark.parametrize("kind", ["results", "thinking", "images", "edits", "prose", "reduce"])
def test_no_cutoff_moves_while_the_session_only_grows(kind: str):
    """Every lane on, of every kind of content a hundred steps: below the threshold no old message is touched."""
    policy = {
        "protected_tokens": 0, "smart_drops": True, "caveman_text_compression": True, "keep_reasoning_tokens": 100,
    }  # fmt: skip
    host = Chat(lanes=True, context_limit=1_000_000, model="claude-sonnet-4-5", policy=policy)
    before = host.say(user("start"))
    for number in range(100):
        use(before, 30_000)
        after = grow(host, kind, number)
        assert after.level == "defer"
        assert extends(before, after)
        before = after
    assert events(host.session, ev.ConversationRebuilt) == []


def grow(host: Chat, kind: str, n: int) -> foldlog.Request:
    if kind == "results":
        return host.tool(f"t{n}", words(200) + "<system-reminder>x</system-reminder>", command="ls")
    if kind == "thinking":
        return host.say(assistant([thinking(words(100)), text("ok")]), user(f"next {n}"))
    if kind == "images":
        return host.say(assistant("ok"), user([text("look"), image()]))
    if kind == "edits":
        return host.tool(f"t{n}", "done", name="Edit", file_path="/a", old_string="a" * 80, new_string="b" * 80)
    if kind == "reduce":
        return host.tool(f"t{n}", "Queued.", name="ctx_reduce", drop="1")
    return host.say(assistant(words(200, "really long prose")), user(words(100, "please just")))


@pytest.mark.rule("CB-01", "CB-03", "CB-19", "PERM-9")
@pytest.mark.parametrize("share", [66, 70, 80, 86, 92])
def test_under_pressure_they_move_once_an_episode(share: int):
    """Sitting above the threshold for sixty passes with the same cleanup to do again and again: it is done once."""
    host = Chat(lanes=True, policy={"protected_tokens": 0})
    request = host.say(user("start"))
    for number in range(12):
        request = host.tool(f"t{number}", words(2_000) + str(number))
    host.session.report_cache_loss("so that all was seen by a rebuild")
    request = host.turn()
    rebuilt = 0
    for number in range(60):
        use(request, 200_000 * share // 100)
        request = host.tool(f"u{number}", words(300) + str(number))
        rebuilt += request.level != "defer"
    assert rebuilt <= 1


# --------------------------------------------------------------- CB-20: other people's marks


def mark(block: dict[str, Any], ttl: str = "") -> dict[str, Any]:
    return {**block, "cache_control": {"type": "ephemeral", **({"ttl": ttl} if ttl else {})}}


@pytest.mark.slow
@pytest.mark.rule("CB-20", "PROXY-12", "ANT-20")
@pytest.mark.parametrize("system", [0, 1, 3])
@pytest.mark.parametrize("tools", [0, 1, 2])
@pytest.mark.parametrize("messages", [1, 3, 6])
def test_whatever_marks_come_in_four_go_out(system: int, tools: int, messages: int, provider: Provider, proxy: Proxy):
    """Marks of any number of layers, on system, tools, texts, results and inside results: at most four in all."""
    history: list[Any] = []
    for number in range(messages):
        inner = [mark(text("inside"))]
        history += [
            {"role": "user", "content": [mark(text(f"say {number}"))]},
            {"role": "assistant", "content": [mark(call(f"toolu_{number}", "Read", path="/f"))]},
            {"role": "user", "content": [mark(result(f"toolu_{number}", inner)), mark(text("go on"))]},
            {"role": "assistant", "content": [mark(text("ok"))]},
        ]
    history.append({"role": "user", "content": [mark(text("now"))]})
    given = {
        "system": [mark(text(f"s{n}")) for n in range(system)] or "You work.",
        "tools": [mark({"name": f"t{n}", "input_schema": {"type": "object"}}) for n in range(tools)],
    }
    assert proxy.ask(history, **{name: value for name, value in given.items() if value}).status_code == 200
    sent = {key: value for key, value in provider.seen[-1].json.items() if key in ("system", "tools", "messages")}
    assert json.dumps(sent).count('"cache_control"') == 4
    assert [fault for fault in check(sent) if fault.rule in ("ANT-20", "ANT-21", "ANT-23")] == []


# --------------------------------------------------------------- CB-09: a clock in the system text


@pytest.mark.rule("CB-09", "FOLD-7")
@pytest.mark.parametrize("every", [1, 2, 7])
def test_a_clock_in_the_system_text_costs_no_content(every: int):
    """Each change folds, since the prefix is lost anyway; the head stays, and nothing leaves that need not."""
    host = Chat(context_limit=200_000, lanes=True)
    host.say(user("start"), system="It is 0.")
    heads = set()
    for number in range(20):
        host.given = {"system": f"It is {number // every}."}
        request = host.tool(f"t{number}", f"out {number} {words(2_000)}")
        heads.add(request.messages_json[:2])
    folds = [event for event in events(host.session, ev.BaselineFolded) if event.reasons == ("system_hash",)]
    assert len(folds) == (20 - 1) // every
    assert len(heads) == 1
    assert host.session.status().dropped == 0
    host.session.reduce("2-4")
    host.given = {"system": "It is late."}
    host.turn()
    assert host.session.status().dropped == 3, "what was marked lands with a fold that is paid for"


@pytest.mark.rule("CB-09", "FOLD-7")
def test_where_room_is_needed_a_clock_does_not_keep_it():
    """From half the threshold on, old output leaves with a fold as with any other."""
    host = Chat(context_limit=200_000, lanes=True)
    host.say(user("start"), system="It is 0.")
    for number in range(20):
        host.given = {"system": f"It is {number}."}
        request = host.tool(f"t{number}", f"out {number} {words(4_000)}")
        use(request, 4_000 * (number + 1))
    assert host.session.status().dropped > 0

"""The plugin of OpenCode under Node, with a host of the test's own around it and a real process behind it."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from foldlog import Engine
from foldlog.adapters.mcp.tools import TABLE
from foldlog.domain.errors import StoreNewer
from foldlog.projections.guidance import GUIDANCE
from support.node import needs_node, run

pytestmark = needs_node
HOST = Path(__file__).with_name("host.mjs")
PROGRAM = [sys.executable, "-c", "from foldlog.adapters.cli import main; main()"]
MODEL = {"providerID": "p", "modelID": "claude-x"}
PROVIDERS = [{"id": "p", "models": {"claude-x": {"limit": {"context": 100_000, "output": 4_096}}}}]
SES = "ses_1"


def user(n: int, text: str, session: str = SES, **info: Any) -> dict[str, Any]:
    made = {"id": f"msg_{n:03}", "sessionID": session, "role": "user", "agent": "build", "model": MODEL}
    return {
        "info": {**made, "time": {"created": n}, **info},
        "parts": [{"type": "text", "text": text, "id": f"prt_{n}"}],
    }


def step(n: int, output: str = "out " * 40, session: str = SES) -> dict[str, Any]:
    state = {"status": "completed", "input": {"path": f"/a{n}"}, "output": output, "title": "t", "metadata": {"m": n}}
    tool = {"type": "tool", "tool": "read", "callID": f"c{n}", "state": {**state, "time": {"start": 1, "end": 2}}}
    parts: list[dict[str, Any]] = [{"type": "step-start"}, {"type": "text", "text": f"step {n}"}, tool]
    info = {
        "id": f"msg_{n:03}",
        "sessionID": session,
        "role": "assistant",
        "time": {"created": n},
        "finish": "tool-calls",
    }
    return {"info": info, "parts": [*parts, {"type": "step-finish", "cost": n}]}


def talk(n: int) -> list[dict[str, Any]]:
    return [user(1, "do the work"), *(step(k) for k in range(2, n + 2))]


def transform(messages: list[dict[str, Any]]) -> dict[str, Any]:
    return {"hook": "experimental.chat.messages.transform", "output": {"messages": messages}}


def system(*texts: str, session: str = SES) -> dict[str, Any]:
    return {
        "hook": "experimental.chat.system.transform",
        "input": {"sessionID": session},
        "output": {"system": list(texts)},
    }


def answered(n: int, session: str = SES, **info: Any) -> dict[str, Any]:
    tokens = {"input": 100, "output": 10, "reasoning": 0, "cache": {"read": 1_000, "write": 50}}
    made = {"id": f"msg_{n:03}", "sessionID": session, "role": "assistant", "tokens": tokens, "finish": "tool-calls"}
    return {"event": {"type": "message.updated", "properties": {"info": {**made, **info}}}}


def event(kind: str, **properties: Any) -> dict[str, Any]:
    return {"event": {"type": kind, "properties": properties}}


def play(*steps: dict[str, Any], **host: Any) -> dict[str, Any]:
    sessions = {SES: {"info": {"id": SES, "title": "work"}}}
    found: dict[str, Any] = run(HOST, {"steps": steps, "sessions": sessions, "providers": PROVIDERS, **host})
    return found


def session_of(running: Any, name: str = SES) -> Any:
    return running.desk.store.engine().session(name, harness="opencode")


@pytest.mark.rule("OC-1", "OC-3")
def test_each_request_extends_the_last_in_the_hosts_own_list(start):
    running = start()
    done = play(*(made for n in range(1, 6) for made in (transform(talk(n)), system("You are."), answered(n + 2))))
    assert done["notices"] == []
    made = [result["messages"] for result in done["results"][::3]]
    assert [len(one) for one in made] == [2 + len(talk(n)) for n in range(1, 6)]
    for before, after in itertools.pairwise(made):
        assert [json.dumps(one) for one in after[: len(before)]] == [json.dumps(one) for one in before]
    assert [part.get("text") for part in made[0][2]["parts"]] == ["§1§ do the work"]
    first = made[0][3]["parts"][2]["state"]
    assert first["output"].startswith("§3§ out out")
    assert (first["metadata"], first["time"]) == ({"m": 2}, {"start": 1, "end": 2})  # all else is the host's own
    assert {result["system"][0] for result in done["results"][1::3]} == {f"You are.\n\n{GUIDANCE}"}
    status = session_of(running).status()
    assert (status.passes, status.usage_tokens, status.model, status.mode) == (5, 1_150, "p/claude-x", "primary")


@pytest.mark.rule("OC-11", "PAR-9")
@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        ("prompt is too long: 90001 tokens > 90000 maximum", "info", "as too long; it is made smaller with the next"),
        ("Too many images and documents: 101 + 0 > 100", "info", "for its pictures; older pictures are left out with"),
        (
            "Invalid `signature` in `thinking` block. The block is bound to a different conversation.",
            "info",
            "for reasoning of another conversation; that reasoning is left out with the next request",
        ),
        (
            "maximum context length is 100000 tokens. You requested 104000 tokens (4000 of input, 100000 in output)",
            "warning",
            "Lower the output allowance to at most 96,000 tokens",
        ),
        ("Overloaded", "", ""),
    ],
)
def test_a_refused_request_is_told_by_its_kind(start, text, kind, told):
    """This host ends the turn by itself: what the next request will be is for the person to know."""
    start()
    failed = {"name": "APIError", "data": {"message": text, "statusCode": 400}}
    talked = talk(3)
    talked[1]["parts"].insert(1, {"type": "reasoning", "text": "so", "metadata": {"anthropic": {"signature": "c2ln"}}})
    done = play(transform(talked), event("session.error", sessionID=SES, error=failed), {"wait": 300}, settle=300)
    assert [found for found, _ in done["notices"]] == ([kind] if kind else [])
    assert all(told in words for _, words in done["notices"]), done["notices"]


@pytest.mark.rule("OC-1")
def test_the_hosts_notes_are_not_told(start):
    running = start()
    talked = talk(2)
    changed = json.loads(json.dumps(talked))
    changed[1]["info"]["tokens"] = {"input": 3}
    changed[1]["parts"][2]["state"]["metadata"] = {"diff": "x" * 9_000}
    play(transform(talked), transform(changed))
    session = session_of(running)
    assert session.status().passes == 1
    body = session.core.body(session.core.hot().state.node(2).message.body)
    assert b"metadata" not in body
    assert b"cost" not in body


@pytest.mark.rule("OC-2")
def test_without_a_process_the_turn_is_refused_and_the_person_told_why(folder):
    done = play(transform(talk(1)))
    why = "the request was not sent: foldlog could not be started with `/nowhere/foldlog link`"
    assert done["results"][0]["thrown"].startswith("foldlog could not be started")
    assert done["notices"][0][0] == "error"
    assert done["notices"][0][1].startswith(why)
    assert done["log"][0][1].startswith(f"foldlog: {why}")
    assert done["errors"][0].startswith(f"foldlog: {why}")


@pytest.mark.rule("OC-2")
@pytest.mark.parametrize("closed", [True, False])
def test_a_store_that_cannot_be_used(start, closed):
    def make(_: Any) -> Engine:
        raise StoreNewer("the store was written by a newer foldlog")

    start(make=make, fail_closed_blocking=closed)
    done = play(transform(talk(1)))
    if closed:
        assert "update foldlog" in done["notices"][0][1]
        assert "thrown" in done["results"][0]
    else:
        assert done["results"][0]["messages"] == talk(1)
        assert done["notices"][0][0] == "warning"


@pytest.mark.rule("OC-2", "LINK-1")
def test_a_killed_process_is_started_anew_and_the_prefix_stays(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("FOLDLOG_DB", f"sqlite:///{tmp_path / 's.db'}")
    monkeypatch.setenv("FOLDLOG_IDLE_EXIT_S", "0.2")
    done = play(transform(talk(1)), {"kill": "SIGKILL"}, transform(talk(2)), command=PROGRAM)
    first, _, second = done["results"]
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert done["notices"] == []


@pytest.mark.rule("OC-3")
def test_guidance_goes_to_no_helper_and_only_once(start):
    start()
    title = "You are a title generator. You output ONLY a thread title."
    whole = f"You are.\n\n{GUIDANCE}"
    done = play(
        system("You are."), transform(talk(1)), system("You are."), system(whole), system(title),
        system("You are.", session="another"),
    )  # fmt: skip
    shown = [result["system"][0] for result in done["results"] if "system" in result]
    assert shown == ["You are.", whole, whole, title, "You are."]


@pytest.mark.rule("OC-3")
def test_another_system_text_folds_and_the_first_one_does_not(start):
    running = start()
    done = play(
        transform(talk(1)), system("You are."), transform(talk(2)), system("You are."),
        transform(talk(3)), system("You are not."), transform(talk(4)), system("You are not."), transform(talk(5)),
    )  # fmt: skip
    assert done["notices"] == []
    levels = [
        stored.event.reasons if type(stored.event).__name__ == "BaselineFolded" else ()
        for stored in running.desk.store.engine().log.read(session_of(running).core.stream)
        if hasattr(stored.event, "arrivals")
    ]
    assert levels == [("first_render",), (), (), ("system_hash",), ()]


@pytest.mark.rule("OC-4")
def test_helpers_and_our_own_children_are_left_alone_and_children_are_subagents(start):
    running = start()
    helper = [user(1, "a title", "ses_h", agent="title")]
    ours = [user(1, "sum up", "ses_o")]
    child = [user(1, "look", "ses_c"), step(2, session="ses_c")]
    sessions = {
        "ses_o": {"info": {"id": "ses_o", "title": "foldlog-summary"}},
        "ses_c": {"info": {"id": "ses_c", "title": "explore", "parentID": SES}},
    }
    done = play(
        transform(helper), transform(ours), transform(child), transform([user(1, "x", "ses_u")]), sessions=sessions
    )
    assert [result["messages"] for result in done["results"][:2]] == [helper, ours]
    engine = running.desk.store.engine()
    assert {name for name, _ in engine.sessions()} == {"opencode/ses_c", "opencode/ses_u"}
    assert session_of(running, "ses_c").status().mode == "subagent"
    assert session_of(running, "ses_u").status().mode == "primary"


@pytest.mark.rule("OC-4")
def test_the_hosts_own_summary_is_made_of_what_the_model_knows(start):
    running = start()
    compacting = {"hook": "experimental.session.compacting", "input": {"sessionID": SES}}
    done = play(
        transform(talk(3)), system("You are."), compacting, transform(talk(3)), system("You sum up."),
        transform(talk(4)), system("You are."), transform(talk(5)),
    )  # fmt: skip
    assert done["results"][3]["messages"] == done["results"][0]["messages"]
    assert done["results"][4]["system"] == ["You sum up."]
    session = session_of(running)
    assert session.status().passes == 3
    assert session.core.hot().state.system == b""  # nothing was told of another system text


@pytest.mark.rule("OC-5")
def test_answers_and_errors_are_reported_once(start):
    running = start()
    overflow = {
        "name": "ContextOverflowError",
        "data": {"message": "prompt is too long: 120000 tokens > 90000 maximum", "responseBody": ""},
    }
    play(
        transform(talk(1)),
        answered(3, finish=None),
        answered(3),
        answered(3, tokens={"input": 9}),
        answered(1),
        transform(talk(2)),
        answered(4, error={"name": "MessageAbortedError", "data": {"message": "aborted"}}),
        transform(talk(3)),
        event("session.error", sessionID=SES, error=overflow),
        answered(5, error=overflow),
    )
    session = session_of(running)
    events = [stored.event for stored in running.desk.store.engine().log.read(session.core.stream)]
    told = [one for one in events if type(one).__name__ in ("UsageReported", "RequestOutcome", "OverflowReported")]
    assert [type(one).__name__ for one in told] == ["UsageReported", "RequestOutcome", "OverflowReported"]
    assert (told[0].input, told[0].cache_read, told[0].cache_write, told[0].output) == (100, 1_000, 50, 10)
    assert (told[1].outcome, told[2].limit) == ("aborted", 90_000)


@pytest.mark.rule("OC-5")
def test_what_the_host_takes_away_is_gone(start):
    start()
    done = play(
        transform(talk(3)),
        event("message.removed", sessionID=SES, messageID="msg_004"),
        transform(talk(2)),
        event("session.compacted", sessionID=SES),
        transform(talk(3)),
        event("session.deleted", info={"id": SES}),
        transform(talk(3)),
    )
    assert [len(result["messages"]) for result in done["results"] if result] == [6, 5, 6, 6]
    assert done["notices"] == []


@pytest.mark.rule("OC-6")
@pytest.mark.parametrize(
    ("limit", "wanted"),
    [
        ({"context": 200_000, "output": 8_192}, (200_000, 8_192)),
        ({"context": 400_000, "input": 272_000, "output": 128_000}, (272_000, 0)),
        ({"context": 272_000, "input": 272_000, "output": 1_000}, (272_000, 1_000)),
        ({"context": 1_000, "output": 100}, (0, 0)),
        ({"context": 9_000_000, "output": 100}, (0, 0)),
        ({}, (0, 0)),
        (None, (0, 0)),
    ],
)
def test_limits_come_from_the_hosts_list(start, limit, wanted):
    running = start()
    done = play(
        transform(talk(1)), transform(talk(2)), providers=[{"id": "p", "models": {"claude-x": {"limit": limit}}}]
    )
    state = session_of(running).core.hot().state
    assert (state.context_limit, state.output_limit) == wanted
    assert done["asked"]["providers"] == 1


@pytest.mark.rule("OC-6")
def test_a_model_the_list_does_not_have_is_asked_for_once_more(start):
    start()
    done = play(transform(talk(1)), transform(talk(2)), transform(talk(3)), providers=[])
    assert done["asked"]["providers"] == 2


@pytest.mark.rule("OC-7")
def test_the_agents_tools(start):
    running = start()
    mimic = {"hook": "tool.execute.before", "output": {"args": {"content": "[dropped §3§]"}}}
    definition = {"hook": "tool.definition", "input": {"toolID": "ctx_expand"}, "output": {"description": "x"}}
    done = play(
        transform(talk(3)),
        {"tool": "ctx_reduce", "session": SES, "args": {"drop": "3"}, "call": "call_1"},
        {"tool": "ctx_reduce", "session": SES, "args": {"drop": "999"}},
        {"tool": "ctx_expand", "session": SES, "args": {"tag": "3"}},
        {"tool": "ctx_search", "session": SES, "args": {"query": "x"}},
        definition,
        mimic,
        {"hook": "tool.execute.before", "output": {"args": {"content": "fine"}}},
        {"hook": "experimental.text.complete", "output": {"text": " §12§ Done, see §3§. "}},
        {"hook": "experimental.text.complete", "output": {"text": " as it was \n"}},
    )
    _, marked, wrong, original, later, shape, guarded, fine, text, kept = done["results"]
    assert "3" in marked
    assert "thrown" in wrong
    assert "out out" in original
    assert "not built yet" in later["thrown"]
    assert shape["jsonSchema"]["properties"].keys() == {"tag", "start", "end"}
    assert "required" not in shape["jsonSchema"]
    assert "placeholder" in guarded["thrown"]
    assert fine == {"args": {"content": "fine"}}
    assert (text["text"], kept["text"]) == ("Done, see .", " as it was \n")
    assert session_of(running).status().queued == 1
    assert {tool.name for tool in TABLE} <= {"ctx_reduce", "ctx_expand"}


@pytest.mark.rule("OC-7")
@pytest.mark.parametrize(
    ("config", "numbered"),
    [
        ({}, True),
        ({"permission": {"*": "allow", "bash": {"rm *": "deny"}}}, True),
        ({"permission": {"ctx_*": "deny"}}, False),
        ({"permission": {"*": "deny", "ctx_reduce": "allow"}}, True),
        ({"permission": "deny"}, False),
        ({"permission": {"*": "allow"}, "agent": {"build": {"permission": {"ctx_reduce": "deny"}}}}, False),
        ({"agent": {"plan": {"permission": {"ctx_reduce": "deny"}}}}, True),
        ({"tools": {"ctx_reduce": False}}, False),
    ],
)
def test_an_agent_that_may_not_reduce_sees_no_numbers(start, config, numbered):
    start()
    done = play({"config": config}, transform(talk(1)), system("You are."))
    text = done["results"][1]["messages"][2]["parts"][0]["text"]
    assert text == ("§1§ do the work" if numbered else "do the work")
    assert done["results"][2]["system"] == [f"You are.\n\n{GUIDANCE}" if numbered else "You are."]


@pytest.mark.rule("OC-7")
def test_commands_answer_by_a_notice_and_begin_no_turn(start):
    running = start()
    commands = [{"hook": "command.execute.before", "input": {"command": name, "sessionID": SES}} for name in
                ("ctx-status", "ctx-flush", "review")]  # fmt: skip
    done = play(transform(talk(1)), *commands)
    assert ["thrown" in result for result in done["results"]] == [False, True, True, False]
    assert "content leaves from 65% on" in done["notices"][0][1]
    assert done["notices"][1] == ["info", "nothing is marked; other cleanup is made with the next request"]
    assert session_of(running).status().flush_pending


@pytest.mark.rule("OC-8")
def test_a_fork_goes_on_from_the_session_it_copies(start):
    start()
    parent = talk(4)

    def copied(message: dict[str, Any]) -> dict[str, Any]:
        info = {**message["info"], "id": message["info"]["id"].replace("msg_", "msg_9"), "sessionID": "ses_2"}
        return {"info": info, "parts": message["parts"]}

    final = {"info": {**step(8)["info"], "finish": "stop"}, "parts": [{"type": "text", "text": "done"}]}
    sessions = {
        SES: {"info": {"id": SES, "title": "work", "time": {"created": 0, "updated": 9}}, "messages": [*parent, final]},
        "ses_2": {"info": {"id": "ses_2", "title": "work (fork #1)", "time": {"created": 50, "updated": 50}}},
    }
    fork = [*(copied(message) for message in [*parent, final]), user(60, "and now", "ses_2", id="msg_999")]
    reduce = {"tool": "ctx_reduce", "session": SES, "args": {"drop": "3"}, "call": "call_1"}
    flush = {"hook": "command.execute.before", "input": {"command": "ctx-flush", "sessionID": SES}}
    done = play(transform(parent[:4]), reduce, flush, transform(parent), transform(fork), sessions=sessions)
    before, after = done["results"][3]["messages"], done["results"][4]["messages"]
    assert [message["parts"] for message in after[: len(before)]] == [message["parts"] for message in before]
    assert after[-1]["parts"][0]["text"].endswith("§ and now")
    assert done["notices"] == [["info", "what is marked leaves with the next request: 1 part"]]


@pytest.mark.rule("OC-9")
def test_the_hosts_compaction_is_switched_off(start):
    start()
    done = play({"config": {"compaction": {"auto": True, "reserved": 5}}}, {"config": {}})
    on, none = done["results"]
    assert on["compaction"] == {"auto": False, "prune": False, "reserved": 5}
    assert none["compaction"] == {"auto": False, "prune": False}
    assert on["command"].keys() == {"ctx-status", "ctx-flush"}
    assert [kind for kind, _ in done["notices"]] == ["warning"]


@pytest.mark.rule("OC-9")
def test_a_policy_without_compaction_leaves_it_to_the_host(start):
    start(policy={"compaction": False})
    done = play({"config": {"compaction": {"auto": True}}})
    assert done["results"][0]["compaction"] == {"auto": True}
    assert done["notices"] == []


@pytest.mark.rule("OC-10")
def test_a_session_of_its_own_writes_a_summary(folder):
    asked = {"system": "Sum up.", "prompt": "the talk", "timeout_ms": 5_000, "model": "p/small"}
    done = play({"summarize": asked})
    assert done["results"] == [{"text": "summary of the talk", "input": 12, "output": 3, "model": "small"}]
    assert (done["asked"]["create"], done["asked"]["delete"]) == (1, 1)

"""The extension of Pi and OMP under Node, with a host of the test's own around it and a real process behind it."""

from __future__ import annotations

import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from foldlog import Engine
from foldlog.adapters.mcp.tools import TABLE
from foldlog.domain.passes.lanes import smart
from foldlog.projections.guidance import GUIDANCE
from support.linked import assistant, step, user
from support.node import needs_node, run

pytestmark = needs_node
HOST = Path(__file__).with_name("pi_host.mjs")
PROGRAM = [sys.executable, "-c", "from foldlog.adapters.cli import main; main()"]


def talk(n: int) -> list[dict[str, Any]]:
    return [user("do the work", 1), *(message for k in range(n) for message in step(k))]


def context(messages: list[dict[str, Any]]) -> dict[str, Any]:
    return {"on": "context", "event": {"messages": messages}}


def answered(message: dict[str, Any]) -> dict[str, Any]:
    return {"on": "message_end", "event": {"message": message}}


def play(*steps: dict[str, Any], **host: Any) -> dict[str, Any]:
    found: dict[str, Any] = run(HOST, {"steps": steps, **host})
    return found


@pytest.mark.rule("EXT-1", "EXT-2")
@pytest.mark.parametrize("omp", [False, True])
def test_each_request_extends_the_last(start, omp):
    start()
    done = play(
        {"on": "before_agent_start", "event": {"systemPrompt": ["You are OMP."] if omp else "You are Pi."}},
        *(made for n in range(6) for made in (context(talk(n)), answered(assistant(n, usage=1_000 + n)))),
        omp=omp,
    )
    prompt = done["results"][0]["systemPrompt"]
    assert prompt == (["You are OMP.", GUIDANCE] if omp else f"You are Pi.\n\n{GUIDANCE}")
    made = [result["messages"] for result in done["results"][1::2]]
    assert [len(one) for one in made] == [2 + len(talk(n)) for n in range(6)]
    for before, after in itertools.pairwise(made):
        assert [json.dumps(one) for one in after[: len(before)]] == [json.dumps(one) for one in before]
    assert made[-1][2]["content"][0]["text"] == "§1§ do the work"
    assert made[-1][3]["content"][1]["arguments"] == {"command": "echo 0"}
    assert done["aborts"] == 0
    assert done["notices"] == []


@pytest.mark.rule("EXT-3")
def test_without_a_process_the_turn_is_aborted_and_the_person_told_why(folder):
    done = play({"on": "before_agent_start", "event": {"systemPrompt": "x"}}, context(talk(1)))
    assert done["results"] == [None, None]
    assert done["aborts"] == 1
    [(kind, words)] = done["notices"]
    assert kind == "error"
    assert words.startswith(
        "foldlog: the request was not sent: foldlog could not be started with `/nowhere/foldlog link`"
    )


@pytest.mark.rule("EXT-3")
def test_a_refusal_of_the_store_aborts(start):
    from foldlog.domain.errors import StoreNewer

    def make(_: Any) -> Engine:
        raise StoreNewer("the store was written by a newer foldlog")

    start(make=make)
    done = play(context(talk(1)), context(talk(2)))
    assert done["aborts"] == 2
    assert "update foldlog" in done["notices"][0][1]


@pytest.mark.rule("EXT-3")
def test_the_hosts_own_request_goes_only_where_the_user_configured_it(start):
    from foldlog.domain.errors import StoreNewer

    def make(_: Any) -> Engine:
        raise StoreNewer("the store was written by a newer foldlog")

    start(make=make, fail_closed_blocking=False)
    done = play(context(talk(1)))
    assert (done["results"], done["aborts"]) == ([None], 0)
    assert done["notices"][0][0] == "warning"


@pytest.mark.rule("LINK-1", "EXT-4")
def test_a_killed_process_is_started_anew_and_the_prefix_stays(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("FOLDLOG_DB", f"sqlite:///{tmp_path / 's.db'}")
    monkeypatch.setenv("FOLDLOG_IDLE_EXIT_S", "0.2")
    done = play(context(talk(1)), context(talk(2)), {"kill": "SIGKILL"}, context(talk(3)), command=PROGRAM)
    first, second, _, third = done["results"]
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert third["messages"][: len(second["messages"])] == second["messages"]
    assert (done["aborts"], done["notices"]) == (0, [])


@pytest.mark.rule("EXT-4")
def test_where_it_cannot_be_started_anew_the_last_view_serves_once_more(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("FOLDLOG_DB", f"sqlite:///{tmp_path / 's.db'}")
    mark = tmp_path / "once"
    once = [sys.executable, "-c", f"import os; os.mkdir({str(mark)!r}); from foldlog.adapters.cli import main; main()"]
    bloated = [*talk(3), user("z" * 400_000, 99)]
    done = play(
        context(talk(1)), context(talk(2)), answered(assistant(2, usage=5_000)), {"kill": "SIGKILL"}, {"wait": 30},
        context(talk(3)), answered(assistant(3, usage=6_000)), context(bloated),
        {"model": {"id": "another"}}, context(talk(3)), command=once,
    )  # fmt: skip
    good, again = done["results"][1]["messages"], done["results"][5]["messages"]
    assert again == [*good, *talk(3)[-2:]]  # what came since stands behind it as it is
    assert [result is None for result in (done["results"][7], done["results"][9])] == [True, True]
    assert done["aborts"] == 2  # too much came since; another model
    assert done["notices"][0][0] == "warning"
    assert "the last view is used once more" in done["notices"][0][1]


@pytest.mark.rule("EXT-5")
@pytest.mark.parametrize("omp", [False, True])
def test_answers_are_reported_and_imitations_taken_out(start, omp):
    running = start()
    done = play(
        context(talk(1)),
        answered(assistant(1, text="§12§ Done, see §3§.", stop="stop", usage=5_000)),
        context(talk(2)),
        answered(assistant(2, text="plain", stop="aborted")),
        context(talk(3)),
        answered(
            assistant(3, text="x", stop="error", errorMessage="prompt is too long: 120000 tokens > 90000 maximum")
        ),
        answered(assistant(4, text="not ours", usage=77)),
        omp=omp,
    )
    said = done["results"][1]
    assert said is None if omp else said["message"]["content"][0]["text"] == "Done, see ."
    engine = running.desk.store.engine()
    session = engine.session("s1", harness="omp" if omp else "pi")
    state = session.core.hot().state
    assert state.learnt == ("p/claude-x", 90_000)
    assert [event for event in done["notices"] if event[0] == "error"] == []
    assert session.status().passes == 3


@pytest.mark.rule("EXT-11")
@pytest.mark.parametrize("omp", [False, True])
def test_what_is_the_same_in_each_request_takes_no_mark_of_one_call(start, omp):
    start()
    done = play({**context([user("", 1), *talk(1)]), "marks": True}, omp=omp)
    marked, kept = zip(*done["results"][0], strict=True)
    assert list(marked) == ([False] * len(marked) if omp else [True] * len(marked))
    assert all(kept)


@pytest.mark.rule("EXT-10")
@pytest.mark.parametrize(("event", "omp"), [("agent_before_settle", False), ("session_stop", True)])
def test_what_overflowed_goes_once_more(start, event, omp):
    start()
    over = {"text": "x", "stop": "error", "errorMessage": "prompt is too long: 90001 tokens > 90000 maximum"}
    settle = {"on": event, "event": {}}
    done = play(
        context(talk(9)), answered(assistant(1, **over)), settle, settle,
        context(talk(9)), answered(assistant(2, **over)), settle,  # a second one in a row is not worth a third
        context(talk(9)), answered(assistant(3, usage=80_000)), settle,
        context(talk(9)), answered(assistant(4, **{**over, "errorMessage": "overloaded"})), settle,
        omp=omp,
    )  # fmt: skip
    said = [result for result in done["results"] if result and "continue" in result]
    assert [result["continue"] for result in said] == [True]
    assert done["results"][2] == said[0]
    assert [words for _, words in done["notices"] if "refused the request" in words] == [
        "foldlog: the provider refused the request as too long; it is made smaller, and it is sent again"
    ]


@pytest.mark.rule("EXT-10")
@pytest.mark.parametrize(("event", "omp"), [("agent_before_settle", False), ("session_stop", True)])
def test_where_the_host_went_on_by_itself_nothing_is_sent_again(start, event, omp):
    """It may have made room of its own, or have another model: what was refused before is over."""
    start()
    over = {"text": "x", "stop": "error", "errorMessage": "prompt is too long: 90001 tokens > 90000 maximum"}
    settle = {"on": event, "event": {}}
    done = play(
        context(talk(9)), answered(assistant(1, **over)),
        context(talk(9)), answered(assistant(2, usage=80_000)), settle,
        omp=omp,
    )  # fmt: skip
    assert done["results"][-1] is None
    assert done["notices"] == []


@pytest.mark.rule("EXT-10", "PAR-9")
@pytest.mark.parametrize(("event", "omp"), [("agent_before_settle", False), ("session_stop", True)])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Too many images and documents: 101 + 0 > 100", "for its pictures; older pictures are left out, and it is"),
        ("413 Request Entity Too Large", "as too many bytes; older pictures are left out, and it is sent again"),
        (
            "Invalid `signature` in `thinking` block. The block is bound to a different conversation.",
            "for reasoning of another conversation; that reasoning is left out, and it is sent again",
        ),
    ],
)  # fmt: skip
def test_what_is_sent_again_is_told_by_its_kind(start, event, omp, text, told):
    start()
    failed = answered(assistant(1, text="x", stop="error", errorMessage=text))
    talked = talk(9)
    talked[1]["content"].insert(0, {"type": "thinking", "thinking": "so", "thinkingSignature": "c2ln"})
    done = play(context(talked), failed, {"on": event, "event": {"entries": []}}, omp=omp)
    assert done["results"][-1]["continue"] is True
    assert [told in words for _, words in done["notices"]] == [True], done["notices"]


@pytest.mark.rule("EXT-10", "PAR-9")
@pytest.mark.parametrize(("event", "omp"), [("agent_before_settle", False), ("session_stop", True)])
def test_where_the_answers_allowance_is_the_cause_nothing_is_sent_again(start, event, omp):
    """The next request would be the same: the person is told what helps instead."""
    start()
    text = (
        "This model's maximum context length is 100000 tokens. You requested 104000 tokens "
        "(4000 in the messages, 100000 in the completion)."
    )
    failed = answered(assistant(1, text="x", stop="error", errorMessage=text))
    done = play(context(talk(9)), failed, {"on": event, "event": {}}, omp=omp)
    assert done["results"][-1] is None
    ((kind, said),) = done["notices"]
    assert kind == "warning"
    assert "Lower the output allowance to at most 96,000 tokens" in said


@pytest.mark.rule("EXT-10")
@pytest.mark.parametrize("able", [False, True])
def test_a_failed_answer_that_pi_keeps_is_taken_out_before_the_next_request(start, able):
    """Pi leaves out the answer that failed of an overflow alone; behind any other one it would ask for nothing."""
    start()
    many = {"text": "x", "stop": "error", "errorMessage": "Too many images and documents: 101 + 0 > 100"}
    failed = {"sourceEntry": {"id": "e9"}, "messages": [assistant(1, **many)]}
    others = [{"type": "custom", "customType": "another"}]
    boundary = {"entries": others, "context": {"canContinue": able, "contextEntries": [failed]}}
    settle = {"on": "agent_before_settle", "event": boundary}
    done = play(context(talk(9)), answered(assistant(1, **many)), settle)
    edit = {"type": "context_edit", "targetId": "e9", "replacement": None}
    assert done["results"][-1] == {"continue": True} | ({} if able else {"entries": [*others, edit]})


@pytest.mark.rule("EXT-6")
def test_tools_and_commands(start):
    start()
    done = play(
        context(talk(8)),
        {"tool": "ctx_reduce", "id": "c1", "params": {"drop": "2-5"}},
        {"tool": "ctx_reduce", "id": "c2", "params": {"drop": "nonsense"}},
        {"tool": "ctx_search", "params": {"query": "x"}},
        {"command": "ctx-flush"},
        {"command": "ctx-status"},
        context(talk(9)),
        {"tool": "ctx_expand", "params": {"tag": "3"}},
    )
    _, queued, wrong, later, _, _, after, original = done["results"]
    assert queued.startswith("Queued")
    assert "nonsense" in wrong["thrown"]
    assert "not built yet" in later["thrown"]
    assert "[dropped" in json.dumps(after["messages"])
    assert original.startswith("§3§ out 0")
    assert [kind for kind, _ in done["notices"]] == ["info", "info"]
    assert "marked" in done["notices"][1][1]
    assert done["registered"]["commands"] == ["ctx-status", "ctx-flush"]
    assert len(done["registered"]["tools"]) == 5


def test_the_tools_of_the_plugins_are_those_of_the_table(tmp_path):
    """EXT-6: name, description and arguments are the same everywhere, but for the session an MCP client may name."""
    script = tmp_path / "tools.mjs"
    source = Path(__file__).parents[3] / "adapters" / "hosts" / "tools.js"
    script.write_text(
        f"import {{ TOOLS }} from {json.dumps(source.as_uri())};\nprocess.stdout.write(JSON.stringify(TOOLS));"
    )
    there = {one["name"]: one for one in run(script, {})}
    for tool in TABLE:
        properties = {name: value for name, value in tool.schema["properties"].items() if name != "session"}
        assert there[tool.name]["description"] == tool.description
        assert there[tool.name]["parameters"]["properties"] == properties
        assert there[tool.name]["parameters"].get("required", []) == tool.schema.get("required", [])


@pytest.mark.rule("EXT-7")
def test_native_compaction_is_cancelled_and_imitated_arguments_blocked(start):
    start()
    done = play(
        {"on": "session_before_compact", "event": {"reason": "threshold"}},
        {"on": "tool_call", "event": {"toolName": "write", "input": {"path": "a", "content": "[dropped §12§]"}}},
        {
            "on": "tool_call",
            "event": {"toolName": "write", "input": {"path": "a", "content": "it says [dropped §12§]"}},
        },
    )
    cancelled, blocked, free = done["results"]
    assert cancelled == {"cancel": True}
    assert blocked["block"]
    assert free is None


@pytest.mark.rule("EXT-7", "T27")
@pytest.mark.parametrize("text", ["const a = 1;\n" * 9, "\U0001f600" * 50], ids=["code", "pairs"])
def test_what_is_left_of_an_older_edit_is_no_argument(start, text):
    start()
    left = smart.hint(text)
    inputs = [left, text[:10] + "...[truncated]", left + " ", "x" + left, text]
    done = play(
        *(
            {"on": "tool_call", "event": {"toolName": "edit", "input": {"path": "a", "newString": one}}}
            for one in inputs
        )
    )
    blocked, *free = done["results"]
    assert blocked["block"]
    assert "older edit" in blocked["reason"]
    assert free == [None] * 4


OWN = ("compaction.enabled", "compaction.idleEnabled", "compaction.supersedeReads", "compaction.dropUseless")
BEGUN = {"on": "session_start", "event": {"reason": "startup"}}


@pytest.mark.rule("EXT-7")
@pytest.mark.parametrize("managed", [True, False])
def test_omp_leaves_its_history_alone_while_foldlog_manages_it(start, managed):
    """Some of what it does to it no event can cancel."""
    start(policy={"compaction": managed})
    assert play(BEGUN, omp=True)["settings"] == dict.fromkeys(OWN, False)  # before it is known, and before a prompt
    prompted = {"on": "before_agent_start", "event": {"systemPrompt": ["You are OMP."]}}
    done = play(BEGUN, prompted, prompted, omp=True)
    assert done["settings"] == (dict.fromkeys(OWN, False) if managed else {})
    assert done["notices"] == []


@pytest.mark.rule("EXT-7")
def test_where_omp_cannot_be_told_so_the_person_is(start):
    start()
    prompted = {"on": "before_agent_start", "event": {"systemPrompt": ["You are OMP."]}}
    ((kind, said),) = play(BEGUN, prompted, omp=True, fixed=True)["notices"]
    assert kind == "warning"
    assert "switch off Auto-compact" in said


ENABLED = {"enabled": True}
PROMPTED = {"on": "before_agent_start", "event": {"systemPrompt": "You are Pi."}}


@pytest.mark.rule("EXT-7")
def test_pi_does_not_begin_to_compact_while_foldlog_manages(start):
    """Its settings say so before the first prompt; another session's go on as they were, and so do these after us."""
    start()
    done = play(ENABLED, BEGUN, ENABLED, PROMPTED, ENABLED)
    assert done["results"][::2] == [[True, True], [False, True], [False, True]]
    assert done["after"] is True
    assert done["notices"] == []


@pytest.mark.rule("EXT-7")
def test_with_compaction_off_pi_asks_its_settings_again(start):
    start(policy={"compaction": False})
    done = play(BEGUN, ENABLED, PROMPTED, ENABLED)
    assert done["results"][1::2] == [[False, True], [True, True]]
    own = play(BEGUN, PROMPTED, ENABLED, enabled=False)
    assert own["results"][2] == [False, False]  # who had switched it off still has


@pytest.mark.rule("EXT-7")
def test_where_pi_cannot_be_told_so_each_is_cancelled_and_the_person_told_once(start):
    start()
    asked, *begun = [
        {"on": "session_before_compact", "event": {"reason": why}} for why in ("manual", "threshold", "overflow")
    ]
    assert play(BEGUN, asked, fixed=True)["notices"] == []
    done = play(BEGUN, asked, *begun, fixed=True)
    assert done["results"][1:] == [{"cancel": True}] * 3
    ((kind, said),) = done["notices"]
    assert kind == "info"
    assert "switch off Auto-compact" in said


@pytest.mark.rule("EXT-7")
def test_with_compaction_off_the_host_compacts(start):
    start(policy={"compaction": False})
    done = play(
        {"on": "before_agent_start", "event": {"systemPrompt": "You are Pi."}},
        {"on": "session_before_compact", "event": {"reason": "threshold"}},
        context(talk(1)),
    )
    assert done["results"][:2] == [None, None]
    assert [m.get("content") for m in done["results"][2]["messages"]] == [m["content"] for m in talk(1)]


@pytest.mark.rule("EXT-8")
def test_a_fork_goes_on_from_the_prefix_the_provider_has(start, tmp_path):
    running = start()
    parent = tmp_path / "parent.jsonl"
    parent.write_text('{"type":"session","id":"s1"}\n')
    branch = [{"type": "message", "id": str(k), "message": message} for k, message in enumerate(talk(2))]
    branch.append({"type": "message", "id": "x", "message": assistant(9, text="never in a request", stop="stop")})
    done = play(
        context(talk(3)),
        {"session": "s2", "branch": branch},
        {"on": "session_start", "event": {"reason": "fork"}},
        context([*talk(2), branch[-1]["message"], user("another way", 500)]),
        parent=str(parent),
    )
    first, _, _, forked = done["results"]
    assert forked["messages"][:-2] == first["messages"][: len(forked["messages"]) - 2]
    engine = running.desk.store.engine()
    [begun] = [
        stored.event for stored in engine.log.read("session/pi/s2") if type(stored.event).__name__ == "SessionForked"
    ]
    assert begun.parent == "session/pi/s1"
    assert forked["messages"][-1]["content"][0]["text"].endswith("another way")


@pytest.mark.rule("EXT-9")
def test_in_a_hidden_run_the_extension_does_nothing(monkeypatch):
    monkeypatch.setenv("FOLDLOG_SUMMARIZER_CHILD", "1")
    script = (
        "import { foldlog } from %s; let n = 0; const pi = new Proxy({}, { get: () => () => n++ }); foldlog()(pi);"
        "process.stdout.write(JSON.stringify(n));"
    )
    source = Path(__file__).parents[3] / "adapters" / "hosts" / "pi" / "extension.js"
    found = Path(os.environ["XDG_RUNTIME_DIR"]) / "hidden.mjs"
    found.write_text(script % json.dumps(source.as_uri()))
    assert run(found, {}) == 0


@pytest.mark.rule("EXT-2")
def test_messages_without_ids_keep_their_names(start):
    """Two equal messages of one time are two; one that changed is the same one, revised."""
    start()
    twice = [user("same", 5), user("same", 5), user("other", 6)]
    changed = [*twice[:2], user("other, changed", 6), *step(1)]
    done = play(context(twice), context(changed), context([*changed, user("more", 9)]))
    texts = [[m["content"][0]["text"] for m in result["messages"][2:]] for result in done["results"]]
    assert texts[0] == ["§1§ same", "§2§ same", "§3§ other"]
    assert texts[1][:2] == texts[0][:2]
    assert texts[2][: len(texts[1])] == texts[1]
    assert done["aborts"] == 0


@pytest.mark.rule("EXT-9")
@pytest.mark.parametrize("omp", [False, True])
def test_a_hidden_run_is_the_host_without_tools_and_session(omp):
    asked = {"system": "Sum up.", "timeout_ms": 5_000, "model": "p/m"}
    small, large = "<new_messages>x", "<new_messages>" + "y" * 200_000
    done = play(
        *({"summarize": {**asked, "prompt": prompt}} for prompt in (small, large, "fail")),
        {"summarize": {**asked, "prompt": "hang", "timeout_ms": 50}},
        omp=omp,
    )
    for prompt, answer in zip((small, large), done["results"], strict=False):
        said = json.loads(answer.pop("text"))
        assert {"--print", "--no-session", "--no-tools"} <= set(said["flags"])
        assert (said["system"], said["prompt"]) == ("Sum up.", prompt)
        assert answer == {"input": 12, "output": 6, "model": "m"}
    assert all("no answer" in failed["thrown"] for failed in done["results"][2:])


@pytest.mark.rule("EXT-12")
def test_a_task_agent_is_a_subagent_and_no_fork(start, tmp_path):
    running = start()
    parent = tmp_path / "one.jsonl"
    parent.write_text('{"type":"title","title":"x"}\n{"type":"session","id":"s0"}\n')
    branch = [{"type": "message", "id": "0", "message": talk(0)[0]}]
    done = play(
        {"session": "s1", "branch": branch}, {"on": "session_start", "event": {}}, context(talk(1)),
        omp=True, parent=str(parent), file=str(tmp_path / "one" / "Unicorn.jsonl"),
    )  # fmt: skip
    assert len(done["results"][2]["messages"]) == len(talk(1))  # no head
    assert running.desk.store.engine().session("s1", harness="omp").status().mode == "subagent"


@pytest.mark.rule("EXT-12")
def test_messages_of_roles_of_the_hosts_own(start):
    start()
    own = [
        {"role": "developer", "content": [{"type": "text", "text": "task done"}], "timestamp": 5},
        {"role": "fileMention", "files": [{"path": "a", "content": "b"}], "timestamp": 6},
        {"role": "theirs", "anything": 1, "timestamp": 7},
    ]
    done = play(context([*talk(1), *own]), context([*talk(1), *own, *step(1)]), omp=True)
    first, second = (result["messages"] for result in done["results"])
    assert second[: len(first)] == first
    assert first[-3]["content"][0]["text"] == "§4§ task done"
    assert first[-2:] == own[1:]
    assert done["notices"] == []


@pytest.mark.rule("EXT-4")
def test_when_the_last_view_is_not_used_again():
    again, waited, failed, refused = run(HOST.with_name("silent.mjs"), {})
    assert [message["content"] for message in again["messages"]] == ["go", "on"]
    assert again["number"] == 0
    assert waited == failed == {"code": "TIMEOUT"}
    assert refused == {"code": "CONTEXT_FULL"}

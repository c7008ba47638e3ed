"""The agent's to-do list: said again where the call that said it has left, taken away where it no longer holds."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from msgspec.structs import replace

import foldlog
from foldlog.domain import events as ev
from foldlog.domain.edits import Insert
from foldlog.domain.errors import LawBroken
from foldlog.domain.identity import Observation, Scene
from foldlog.domain.passes import local
from foldlog.domain.passes.lanes import todo
from foldlog.domain.passes.lanes.places import places
from foldlog.domain.transcript import Text
from foldlog.projections import compare, provenance
from foldlog.projections import view as views
from support.agent import CODECS, Agent, arcs, judged, place
from support.past import summarise, tail
from support.talk import differences, events, use, words

if TYPE_CHECKING:
    from foldlog.domain.passes.given import Given

OPEN = {"content": "write the parser", "status": "in_progress"}
NEXT = {"content": "test it", "status": "pending", "priority": "high"}
OVER = {"content": "read", "status": "completed"}
BARE = {"protected_tokens": 0, "protected_tools": {"bash": 1_000, "todowrite": 0}}


def agent(codec: str = "anthropic", engine: foldlog.Engine | None = None, **options: Any) -> Agent:
    """Return one that has written a list and gone on for some steps."""
    made = Agent(codec, engine, **{"policy": BARE, **options})
    made.ask("start")
    made.list(OPEN, NEXT)
    for _ in range(4):
        made.step()
    return made


def lost(host: Agent, **given: Any) -> foldlog.Request:
    """Let a fold happen that something else pays for."""
    host.session.report_cache_loss("said so")
    return host.step(**given)


def covered(host: Agent, behind: int = 2) -> foldlog.Request:
    """Let a summary cover the first rounds, and the fold that shows it."""
    summarise(host, host.starts[behind])
    return lost(host)


def sent(request: foldlog.Request) -> str:
    return b"\n".join(request.messages_json).decode()


def did(host: Agent) -> ev.Did | None:
    decision = host.last().decision
    return next((one for one in decision.lanes if one.lane == "todo"), None) if decision else None


def goes_on(before: foldlog.Request, after: foldlog.Request) -> bool:
    return after.messages_json[: len(before.messages_json)] == before.messages_json


# ------------------------------------------------------------------ it is said again


@pytest.mark.rule("TODO-1", "TODO-2", "PROP-2")
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("signed", [False, True])
def test_a_list_whose_call_a_summary_covers_is_said_again(codec: str, signed: bool):
    host = agent(codec, signed=signed)
    assert arcs(host.step()) == {}, "while the call stands nothing is said twice"
    request = covered(host)
    (name, given, output), *others = arcs(request).values()
    assert not others
    assert (name, given) == ("todowrite", {"todos": [OPEN, NEXT]})
    assert json.loads(output) == [{**OPEN, "priority": "medium"}, NEXT]
    assert [m for m in tail(request) if m in host.state.path[: host.starts[2]]] == []
    assert did(host) == ev.Did("todo", True, 1, 0)
    assert differences(host.engine) == []


@pytest.mark.rule("TODO-1", "LANE-1")
@pytest.mark.parametrize("codec", CODECS)
def test_a_list_whose_call_leaves_with_a_drop_is_said_again_by_the_same_rebuild(codec: str):
    host = agent(codec)
    for _ in range(22):  # among the newest twenty a small call stays as a skeleton
        host.step()
    todo = next(n for n, tag in enumerate(host.state.tags, 1) if n in host.state.todos and tag.status == "active")
    host.session.reduce(str(todo))
    host.session.flush()
    request = host.step()
    assert host.state.tags[todo - 1].mode == "full"
    assert len(arcs(request)) == 1
    assert {one.lane for one in host.last().decision.lanes} == {"queued", "todo"}
    scene = Scene(host.state, Observation(keep=len(host.state.path)))
    anew = local.recount(scene, cast("Given", SimpleNamespace(system_tokens=0, tools_tokens=0)))
    assert abs(host.last().tokens - anew) < 12, "counted where it is put in, and where it is counted anew"
    assert goes_on(request, host.step())
    assert differences(host.engine) == []


@pytest.mark.rule("TODO-1")
def test_a_skeleton_still_says_the_list():
    host = agent()
    host.session.reduce(str(next(iter(host.state.todos))))
    host.session.flush()
    request = host.step()
    assert "[dropped §2§]" in sent(request)
    assert arcs(request) == {}


@pytest.mark.rule("TODO-1")
@pytest.mark.parametrize("codec", CODECS)
def test_only_the_newest_call_that_ended_well_counts(codec: str):
    host = agent(codec)
    host.step(("update_plan", {"plan": [{"step": "ship", "status": "pending"}]}), ("bash", {"n": 0}))
    tells = codec not in ("openai-chat", "openai-responses")  # there an error looks like any other output
    if tells:
        host.list({**OPEN, "content": "refused"}, error=True, output="no")
    host.step(("_todo", {"op": "done", "task": "ship"}))
    summarise(host, host.starts[-1])
    host.session.report_cache_loss("said so")
    request = host.list({**OPEN, "content": "refused too"}, error=True, output="no") if tells else host.step()
    assert [name for name, _, _ in arcs(request).values()] == ["update_plan"]
    assert [json.loads(output) for _, _, output in arcs(request).values()] == [
        [{"content": "ship", "status": "pending", "priority": "medium"}]
    ]


@pytest.mark.rule("TODO-3")
@pytest.mark.parametrize("steps", [[], [OVER], [OPEN, {"content": "b", "status": "later"}]], ids=str)
def test_a_newest_list_that_is_over_or_not_understood_hides_the_older_ones(steps: list[Any]):
    host = agent()
    host.list(*steps)
    host.step()
    assert arcs(covered(host, len(host.starts) - 1)) == {}


@pytest.mark.rule("TODO-1", "TODO-3")
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("step", [OVER, NEXT], ids=["over", "open"])
def test_a_host_that_clears_output_a_summary_covers_brings_no_older_list_back(codec: str, step: Any):
    host = agent(codec)
    host.list(step, output="all is listed")
    host.step()
    covered(host, len(host.starts) - 1)
    before = [json.loads(output) for _, _, output in arcs(lost(host)).values()]
    host.messages = [raw.replace(b"all is listed", b"[cleared]") for raw in host.messages]
    after = [json.loads(output) for _, _, output in arcs(lost(host)).values()]
    assert before == after == ([] if step is OVER else [[NEXT]])


@pytest.mark.rule("TODO-3")
def test_a_list_too_large_for_the_window_is_not_said_again():
    host = agent(context_limit=40_000)
    host.list(*({"content": words(100) + str(n), "status": "pending"} for n in range(20)))
    host.step()
    assert arcs(covered(host, len(host.starts) - 1)) == {}


# ------------------------------------------------------------------ it never moves a byte by itself


@pytest.mark.rule("TODO-4", "LANE-3", "PERM-5")
def test_it_is_never_the_reason_of_a_rebuild():
    """The list has left, and no place was there: a flush of an empty queue, and pressure that frees nothing."""
    host = Agent("anthropic", policy=BARE)
    host.ask("start")
    host.list(OPEN)
    host.ask()
    summarise(host, len(host.messages))
    host.session.report_cache_loss("said so")
    request = host.ask()
    assert request.level == "hard"
    assert arcs(request) == {}, "behind a person's words alone there is no place"
    request = host.step()
    for _ in range(3):
        host.session.flush()
        use(request, 170_000)
        after = host.step()
        assert after.level == "defer"
        assert goes_on(request, after)
        assert arcs(after) == {}
        request = after
    host.messages[-1] = host.messages[-1].replace(b"x x", b"x y", 1)
    host.session.flush()
    assert host.step().level == "defer", "nor where the host changes something itself"
    assert len(arcs(lost(host))) == 1


@pytest.mark.rule("TODO-4")
def test_it_is_put_nowhere_before_the_first_byte_a_rebuild_changes():
    """The list left while no place was there; of a rebuild that changes the end alone it takes no advantage."""
    host = Agent("anthropic", policy=BARE)
    host.ask("start")
    host.list(OPEN)
    host.ask()
    summarise(host, len(host.messages))
    host.session.report_cache_loss("said so")
    assert arcs(host.ask()) == {}
    host.step()
    for n in range(4):
        host.ask(f"{n} {words(60)}")
    host.session.reduce(str(len(host.state.tags)))
    host.session.flush()
    request = host.again()
    assert (request.level, arcs(request)) == ("soft+", {})
    assert len(arcs(lost(host))) == 1


@pytest.mark.rule("TODO-4", "PROP-4")
def test_it_never_makes_a_rebuild_larger_than_what_pays_for_it():
    """An own rebuild frees less than the list would take."""
    host = agent(policy={**BARE, "protected_tools": {"bash": 1_000, "todowrite": 0}}, context_limit=100_000)
    host.list(*({"content": f"{n} {words(40)}", "status": "pending"} for n in range(12)))
    for _ in range(24):
        host.step(output="x")
    host.step(output=words(700))
    for _ in range(24):
        host.step(output="x")
    todo = list(host.state.todos)[-1]
    large = max(range(1, len(host.state.tags) + 1), key=lambda n: host.state.tags[n - 1].tokens)
    before = host.state.last.tokens
    use(host.step(output="x"), 90_000)
    host.session.reduce(f"{todo},{large}")
    request = host.step(output="x")
    assert request.level == "soft+", request.reasons
    assert host.state.last.tokens <= before


@pytest.mark.rule("TODO-5", "T13", "T14", "ACC-14", "LAW-3")
@pytest.mark.parametrize("codec", CODECS)
def test_quiet_passes_replay_it_in_this_process_and_another(codec: str, tmp_path: Any):
    url = f"sqlite:///{tmp_path / 'log.db'}"
    host = agent(codec, foldlog.Engine.open(url, summarizer=None))
    request = covered(host)
    (id,) = arcs(request)
    for number in range(8):
        if number % 3 == 1:
            host.engine.close()
            host.engine = foldlog.Engine.open(url, summarizer=None)
            host.reopen()
        if number == 4:
            host.list({**OPEN, "status": "completed"}, NEXT)  # a newer list; the old one stays where it was
        after = host.step()
        assert after.level == "defer"
        assert goes_on(request, after)
        assert list(arcs(after)) == [id]
        request = after
    assert arcs(lost(host)) == {}, "the newer call says it"
    assert differences(host.engine) == []
    host.engine.close()


@pytest.mark.rule("TODO-6")
@pytest.mark.parametrize("codec", CODECS)
def test_it_stays_where_it_stands_until_a_summary_takes_the_place(codec: str):
    host = agent(codec)
    request = covered(host)
    (id,), (m,) = arcs(request), place(request)
    for _ in range(3):
        host.step()
    request = lost(host)
    assert (list(arcs(request)), place(request)) == ([id], [m])
    assert did(host) is None
    host.step()
    request = covered(host, len(host.starts) - 2)
    assert list(arcs(request)) == [id]
    assert place(request) > [m]
    kinds = [insert.kind for insert in host.last().inserts]
    assert kinds == ["none", "arc"]
    assert goes_on(request, host.step())
    assert differences(host.engine) == []


@pytest.mark.rule("TODO-6", "TODO-4")
def test_a_rebuild_that_begins_behind_it_leaves_it_where_it_is():
    """A newer call stands; taking the arc away would cost the cache of all between it and the first drop."""
    host = agent()
    request = covered(host)
    (id,) = arcs(request)
    host.list(OPEN)
    for _ in range(22):
        host.step()
    host.session.reduce(str(len(host.state.tags)))
    host.session.reduce(str(len(host.state.tags) - 1))
    host.session.flush()
    request = host.step()
    assert request.level == "soft+"
    assert list(arcs(request)) == [id]
    assert arcs(lost(host)) == {}


# ------------------------------------------------------------------ where it stands


@pytest.mark.rule("TODO-7", "PROP-2")
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("asked", [False, True])
def test_it_parts_no_call_from_its_results_and_follows_no_prompt(codec: str, asked: bool):
    host = agent(codec, signed=True)
    host.step(("bash", {"n": 1}), ("bash", {"n": 2}), ("bash", {"n": 3}))
    summarise(host, host.starts[2])
    host.session.report_cache_loss("said so")
    request = host.ask("and now?") if asked else host.step(("bash", {}), ("bash", {}))
    assert len(arcs(request)) == 1
    (m,) = place(request)
    behind = host.state.path[host.state.pos[m] + 1 :]
    assert bool(behind) is asked
    assert host.state.node(m).message.role != "assistant" or codec == "opencode"


@pytest.mark.rule("TODO-7")
@pytest.mark.parametrize("codec", CODECS)
def test_a_turn_that_was_broken_off_does_not_end_with_it(codec: str):
    """A provider may want reasoning in front of the newest answer: it stays the model's own."""
    host = agent(codec)
    summarise(host, host.starts[2])
    host.session.report_cache_loss("said so")
    request = host.round("", (), "never mind")
    (m,) = place(request)
    behind = host.state.path[host.state.pos[m] + 1 :]
    assert "assistant" in [host.state.node(n).message.role for n in behind]


@pytest.mark.rule("TODO-7", "ITEM-7")
def test_an_output_that_comes_late_leaves_no_place_before_it(monkeypatch: pytest.MonkeyPatch):
    """On Responses other items may stand between a call and its output; none of ours does."""
    host = agent("openai-responses")
    called = {"type": "function_call", "name": "bash", "arguments": "{}"}
    thought = {"type": "reasoning", "id": "rs_b", "summary": [], "encrypted_content": "QUFB"}
    back = {"type": "function_call_output", "output": "x"}
    items = [
        {**called, "call_id": "a"},
        thought,
        *({**one, "call_id": "b"} for one in (called, back)),
        {**back, "call_id": "a"},
    ]
    host.messages += [json.dumps(item).encode() for item in items]
    summarise(host, host.starts[2])
    host.session.report_cache_loss("said so")
    seen: list[int] = []
    monkeypatch.setattr(todo, "places", lambda ask, _: seen.extend(i for i, _ in places(ask, 0)) or places(ask, 0))
    host.again()
    end = len(host.state.path) - 1
    assert end in seen
    assert not {end - 1, end - 2, end - 3, end - 4} & set(seen)


@pytest.mark.rule("TODO-7")
@pytest.mark.parametrize("codec", CODECS)
def test_without_results_it_ends_an_older_turn_never_the_newest(codec: str):
    host = agent(codec)
    for n in range(3):
        host.ask(f"question {n}", f"answer {n}")
    summarise(host, host.starts[-3])
    host.session.report_cache_loss("said so")
    request = host.ask("last")
    (m,) = place(request)
    at = host.state.pos[m]
    assert host.state.node(m).message.role == "assistant"
    later = [host.state.node(n).message.role for n in host.state.path[at + 1 :]]
    assert later[0] == "user"
    assert "assistant" in later


@pytest.mark.rule("TODO-7")
def test_words_beside_results_are_a_persons_as_far_as_a_place_goes():
    host = agent()
    content = [*json.loads(host.messages[-1])["content"], {"type": "text", "text": "hurry up"}]
    host.messages[-1] = json.dumps({"role": "user", "content": content}).encode()
    newest = len(host.messages)
    summarise(host, host.starts[2])
    host.session.report_cache_loss("said so")
    (m,) = place(host.again())
    assert host.state.pos[m] + 1 < newest


@pytest.mark.rule("TODO-7")
def test_it_follows_no_prompt_where_the_results_behind_that_have_left():
    host = agent()
    host.ask("and this")
    asked = len(host.messages) - 1
    host.step(("bash", {"x": words(2_000)}))
    kept = len(host.messages)
    host.step()
    host.session.reduce(str(len(host.state.tags) - 1))
    host.session.flush()
    host.step()
    assert host.state.tags[-3].mode == "full", [tag.mode for tag in host.state.tags]
    summarise(host, host.starts[2])
    host.session.report_cache_loss("said so")
    request = host.advance(retracted=host.state.path[kept:])
    (m,) = place(request)
    assert host.state.pos[m] < asked


@pytest.mark.rule("TODO-7", "ANT-33")
def test_instructions_between_messages_stay_behind_what_they_stand_behind():
    host = Agent("anthropic", policy=BARE)
    host.ask("start")
    host.list(OPEN)
    for _ in range(5):
        host.messages.append(json.dumps({"role": "system", "content": "The time is late."}).encode())
        host.step()
    request = covered(host, 3)
    (m,) = place(request)
    host.messages.append(json.dumps({"role": "system", "content": "The time is late."}).encode())
    host.step()
    host.messages.append(json.dumps({"role": "system", "content": "Very late."}).encode())
    summarise(host, host.starts[-3])
    host.session.report_cache_loss("said so")
    request = host.again()
    (m,) = place(request)
    assert host.state.node(m).message.role == "system"


@pytest.mark.rule("TODO-7")
@pytest.mark.parametrize(
    ("codec", "model", "reasons", "running"),
    [
        ("openai-chat", "moonshot/kimi-k2.6", True, None),
        ("openai-chat", "moonshot/kimi-k2.6", False, True),
        ("pi", "deepseek-v3p2", True, None),
        ("anthropic", "kimi-k2.6", True, True),
        ("openai-chat", "google/gemini-3-pro", False, False),
        ("openai-chat", "gpt-x", True, True),
    ],
)
def test_models_that_want_something_of_their_own_with_a_call(codec: str, model: str, reasons: bool, running: bool):
    host = agent(codec, model=model, signed=reasons)
    host.ask()
    host.step()
    host.step()
    request = covered(host)
    if running is None:
        assert arcs(request) == {}
        return
    (m,) = place(request)
    said = [at for at, n in enumerate(host.state.path) if isinstance(host.state.node(n).message.parts[0], Text)]
    assert (host.state.pos[m] > max(said)) is running


@pytest.mark.rule("TODO-4", "THINK-1")
@pytest.mark.parametrize("listed", [False, True])
def test_on_a_bound_model_it_costs_no_reasoning_beyond_what_the_rebuild_costs(listed: bool):
    """A newer call has made it old; taking it away would make all reasoning behind it invalid."""
    host = agent(signed=True, model="claude-sonnet-5-5")
    covered(host)
    if listed:
        host.list(OPEN)
    for _ in range(24):
        before = host.step()
    assert len(arcs(before)) == 1
    host.session.reduce(str(len(host.state.tags)))
    host.session.flush()
    request = host.step()
    assert request.level == "soft+"
    assert len(arcs(request)) == 1
    held, left = (sum(b'"thinking"' in raw for raw in one.messages_json) for one in (before, request))
    assert held - left <= 1, "what stood behind the result that was dropped"
    assert len(arcs(lost(host))) == (not listed)


# ------------------------------------------------------------------ who has it


@pytest.mark.rule("TODO-8", "PERM-7")
@pytest.mark.parametrize("how", ["subagent", "off"])
def test_neither_subagents_nor_sessions_without_compaction_have_it(how: str):
    given: dict[str, Any] = {"mode": "subagent"} if how == "subagent" else {"policy": {**BARE, "compaction": False}}
    host = agent(**given)
    for _ in range(22):
        host.step()
    host.session.reduce(str(next(iter(host.state.todos))))
    host.session.flush()
    request = lost(host)
    assert arcs(request) == {}


@pytest.mark.rule("TODO-8", "IDENT-3")
def test_a_request_beside_the_head_gets_no_list_of_its_own():
    host = agent()
    summarise(host, host.starts[2])
    title = json.dumps({"role": "user", "content": "Give a title."}).encode()
    request = host.session.prepare([*host.messages[: host.starts[3]], title], now=host.now + 1)
    assert host.last().side is not None
    assert arcs(request) == {}
    assert len(arcs(lost(host))) == 1
    beside = [*host.messages[: host.starts[5]], title]
    request = host.session.prepare(beside, now=host.now + 2)
    assert judged("anthropic", request, beside) == []
    assert host.last().inserts == ()


TOOLS = [{"name": name, "description": "", "input_schema": {"type": "object"}} for name in ("bash", "TodoWrite")]


@pytest.mark.rule("TODO-9", "ACC-14")
def test_a_tool_that_is_gone_takes_the_list_along_on_a_rebuild_and_never_else():
    host = agent()
    host.given = {"tools": TOOLS}
    host.step()
    request = covered(host)
    (id,) = arcs(request)
    host.given = {}  # not told is as it was
    request = host.step()
    assert list(arcs(request)) == [id]
    host.given = {"tools": TOOLS[:1]}
    request = host.step()
    assert (request.level, arcs(request)) == ("hard", {}), "another list of tools is a fold by itself"
    host.given = {}
    host.reopen()
    host.session.core._hot = None
    assert arcs(lost(host)) == {}, "a denial lasts, in a new process too"
    host.given = {"tools": TOOLS}
    assert list(arcs(host.step())) == [id]
    assert differences(host.engine) == []


@pytest.mark.rule("TODO-9", "ACC-14", "FOLD-6")
def test_a_denial_first_told_on_a_quiet_pass_waits_for_a_rebuild():
    host = agent()
    request = covered(host)
    (id,) = arcs(request)
    host.given = {"tools": TOOLS[:1]}
    after = host.step()
    assert after.level == "defer", "what was not known at the fold triggers nothing"
    assert list(arcs(after)) == [id], "on a quiet pass it is replayed"
    assert arcs(lost(host)) == {}


@pytest.mark.rule("TODO-9", "ACC-14")
def test_without_a_word_about_tools_it_is_said():
    host = agent()
    assert len(arcs(covered(host))) == 1


# ------------------------------------------------------------------ other ways of a session


@pytest.mark.rule("TODO-6", "IDENT-5")
@pytest.mark.parametrize("codec", ["anthropic", "openai-chat", "pi"])
def test_a_rewind_over_its_place_takes_it_along_and_the_next_rebuild_puts_it_anew(codec: str):
    host = agent(codec)
    request = covered(host)
    (id,), (m,) = arcs(request), place(request)
    keep = max(start for start in host.starts if start <= host.state.pos[m])
    del host.messages[keep:]
    host.messages.append(host.messages[0].replace(b"start", b"another way"))
    request = host.again()
    if m not in host.state.pos:
        assert arcs(request) == {}
    host.step()
    host.step()
    request = lost(host)
    assert list(arcs(request)) == [id]
    assert place(request) != [m]
    assert differences(host.engine) == []


@pytest.mark.rule("TODO-6", "IDENT-6")
def test_a_place_the_host_removes_takes_it_along():
    host = agent()
    request = covered(host)
    (id,), (m,) = arcs(request), place(request)
    host.step()
    host.step()
    at = host.state.pos[m]
    del host.messages[at - 1 : at + 1]
    request = host.again()
    assert arcs(request) == {}
    assert list(arcs(lost(host))) == [id]
    assert differences(host.engine) == []


@pytest.mark.rule("TODO-5", "TAG-7", "RF-01")
def test_a_fork_serves_it_where_its_parent_did():
    host = agent()
    request = covered(host)
    child = host.session.fork("child")
    again = child.prepare(host.messages, now=host.now + 5)
    assert (again.level, arcs(again)) == ("defer", arcs(request))
    child.report_cache_loss("said so")
    again = child.prepare(host.messages, now=host.now + 9)
    assert (again.level, arcs(again), place(again)) == ("hard", arcs(request), place(request))
    assert differences(host.engine, "child") == []


@pytest.mark.rule("TODO-10", "PROP-1", "PROP-2")
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("anew", [False, True])
def test_an_arc_of_ours_that_a_host_sends_back_is_sent_once(codec: str, anew: bool):
    host = agent(codec)
    request = covered(host)
    (id,) = arcs(request)
    request = host.step()  # not where ours stands: there it would be the array as we sent it
    host.messages += [raw for raw in request.messages_json if id.encode() in raw]
    if anew:
        host.session.report_cache_loss("said so")
        assert list(arcs(host.step())) == [id], "neither twice nor taken for the agent's own"
        return
    before = host.state.last.tokens
    after = host.step()
    assert goes_on(request, after)
    assert list(arcs(after)) == [id], "once"
    assert host.state.last.tokens - before < 400
    rebuilt = lost(host)
    assert list(arcs(rebuilt)) == [id]
    scene = Scene(host.state, Observation(keep=len(host.state.path)))
    given = cast("Given", SimpleNamespace(system_tokens=0, tools_tokens=0))
    assert host.last().tokens == local.recount(scene, given)
    bare = agent(codec)
    covered(bare)
    bare.step()
    bare.step()
    lost(bare)
    assert abs(host.last().tokens - bare.last().tokens) < 30, "what is left out costs nothing"
    assert differences(host.engine) == []


# ------------------------------------------------------------------ what is told and counted


@pytest.mark.rule("WINDOW-15", "TODO-11")
def test_what_it_costs_is_counted_by_its_pass_and_every_later_one():
    host, bare = agent(), Agent("anthropic", policy=BARE)
    bare.ask("start")
    bare.list({**OPEN, "status": "completed"})
    for _ in range(4):
        bare.step()
    with_list, without = (covered(one) and one.last().tokens for one in (host, bare))
    unit = next(iter(host.state.units.values()))
    assert with_list - without == unit.tokens > 60
    for one in (host, bare):
        one.step()
    assert host.last().tokens - bare.last().tokens == unit.tokens
    lost(host), lost(bare)
    assert host.last().tokens - bare.last().tokens == unit.tokens
    assert host.state.tail == bare.state.tail, "nothing of it counts as what the agent could mark"
    host.list(OPEN)
    bare.list(OPEN)
    lost(host), lost(bare)
    assert host.last().tokens == bare.last().tokens


@pytest.mark.rule("TODO-11", "API-11")
def test_the_delta_of_a_rebuild_names_the_messages_it_stands_behind():
    host = agent()
    request = covered(host)
    (m,) = place(request)
    assert m in [one.handle for one in request.delta]
    for _ in range(22):
        host.step()
    host.list(OPEN)
    for _ in range(2):
        host.step()
    host.session.reduce(str(host.state.tag_of[next(k for k in host.state.tag_of if k // 4096 == m)]))
    host.session.flush()
    request = host.step()
    assert arcs(request) == {}
    assert m in [one.handle for one in request.delta]
    stored = events(host.session)[-1]
    assert [insert.kind for insert in stored.inserts] == ["none"]


@pytest.mark.rule("TODO-11")
def test_why_and_diff_name_it():
    host = agent()
    before = host.again().pass_number
    request = covered(host)
    (id,), (m,) = arcs(request), place(request)
    log, stream = host.engine.log, host.session.core.stream
    steps = [step.what for step in provenance.why(log, stream, next(iter(host.state.todos))).steps]
    assert any(id in what and f"message {m}" in what for what in steps), steps
    other = [step.what for step in provenance.why(log, stream, 4).steps]
    assert not any(id in what for what in other)
    found = compare.diff(log, stream, before, request.pass_number)
    (owner,) = {change.owner for change in found.changes if change.region == "insert"}
    assert id in owner.edit


# ------------------------------------------------------------------ the fold's own guard


@pytest.mark.rule("TODO-4", "LAW-3")
@pytest.mark.parametrize("kind", ["arc", "none"])
def test_a_rebuild_inserts_nothing_before_its_reach_or_behind_nothing(kind: Any):
    host = agent()
    covered(host)
    event, view = host.last(), host.session.core.hot().view
    shut = ev.ConversationRebuilt(
        event.at, "", event.number + 1, event.now, 1, event.number, (), (Insert(12, 0, "x", kind),), b"", 1, None,
        replace(event.decision, reach=13), (), (), event.adopted,
    )  # fmt: skip
    with pytest.raises(LawBroken):
        views.preview(view, shut, {}, {12: 12})
    nowhere = replace(shut, inserts=(Insert(999, 0, "x", kind),), decision=replace(event.decision, reach=0))
    with pytest.raises(LawBroken):
        views.preview(view, nowhere, {}, {})
    views.preview(view, replace(shut, decision=replace(event.decision, reach=12)), {}, {12: 12})

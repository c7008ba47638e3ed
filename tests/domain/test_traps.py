"""Traps of single passes: each was a real defect of the reference once (transform.md 9 and 10)."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import checker
import pytest

import foldlog
from foldlog.domain import edits as e
from foldlog.domain import events as ev
from foldlog.domain.errors import LawBroken
from foldlog.domain.passes import lanes, tagger, triggers, words
from foldlog.domain.passes.given import Outlook
from foldlog.projections import view as views
from support import ports
from support.talk import (
    Chat,
    assistant,
    call,
    differences,
    events,
    fingerprint,
    image,
    result,
    text,
    thinking,
    use,
    user,
)
from support.talk import words as tokens

BARE = {"protected_tokens": 0}
HOME = Path(lanes.__file__).parents[2]


def chat(**options: Any) -> Chat:
    made = Chat(**{"lanes": True, **options, "policy": {**BARE, **options.get("policy", {})}})
    made.say(user("start"))
    return made


def fill(host: Chat, count: int, size: int = 400, first: int = 0, name: str = "Bash") -> Any:
    request = None
    for number in range(first, first + count):
        request = host.tool(f"t{number}", tokens(size) + str(number), name=name, n=number)
    return request


def lost(host: Chat) -> Any:
    """Let a rebuild happen that something else pays for."""
    host.session.report_cache_loss("said so")
    return host.turn()


def wire(request: Any) -> str:
    return b"\n".join(request.messages_json).decode()


def goes_on(before: Any, after: Any) -> bool:
    """Whether a request begins with all of the one before it, byte for byte."""
    return after.messages_json[: len(before.messages_json)] == before.messages_json


# ------------------------------------------------------------ what is served


@pytest.mark.rule("T1")
@pytest.mark.parametrize("content", ["short", tokens(900), "Ünï §7§ [dropped §9§]", "a\nb\n\n" * 300])
def test_a_placeholder_says_the_number_and_nothing_else(content: str):
    host = chat()
    host.say(assistant("ok"), user(content))
    host.turn()
    host.tool("t", content, big=1)
    host.turn()
    host.session.reduce("3,6")
    host.session.flush()
    request = host.turn()
    for number in (3, 6):
        assert f'"[dropped §{number}§]"' in wire(request)
    assert "[truncated" not in wire(request)
    for _ in range(3):
        after = host.turn()
        assert goes_on(request, after)
        request = after


@pytest.mark.rule("T4", "ACC-13")
@pytest.mark.parametrize("queued", [False, True])
def test_late_blanks_change_no_byte_and_open_no_gate(queued: bool):
    """Turn by turn a blank comes late, and one is taken back: nothing sent moves, no drop takes it for a gap."""
    host = chat()
    host.say(assistant([text("ok")]), user("more"))
    fill(host, 4)
    request = host.turn()
    if queued:
        host.session.reduce("4-5")
    for blanks in ([text("\n")], [text("\n"), text(" ")], [], [text("\n\n")]):
        host.messages[1] = assistant([text("ok"), *blanks])
        after = host.turn()
        assert after.level == "defer"
        assert goes_on(request, after)
        assert host.last().decision.signals == ()
        request = after
    assert differences(host.engine) == []


@pytest.mark.rule("T4", "ACC-13", "PAR-10")
@pytest.mark.parametrize("codec", ["pi", "openai-chat"])
def test_late_blanks_a_host_leaves_out_open_no_gate_either(codec: str):
    """Pi leaves blanks out behind us; on chat's wire they are sent as they came, and the host has moved the rest."""
    host = Chat(codec=codec, policy=BARE)
    host.say(user([text("start")]))
    for number in range(6):
        host.say(assistant([text("word " * 400 + str(number))]), user([text("go on")]))
    host.session.reduce("6-9")
    for blanks in ([text("\n")], [text("\n"), text(" ")], []):
        host.messages[1] = assistant([text("word " * 400 + "0"), *blanks])
        request = host.say(assistant([text("ok")]), user([text("more")]))
        if codec == "openai-chat":
            break
        assert request.level == "defer"
        assert "divergence" not in request.reasons
    assert ("divergence" in request.reasons) is (codec == "openai-chat")
    assert differences(host.engine) == []


@pytest.mark.rule("T4")
def test_a_late_text_that_is_not_blank_is_the_hosts_own_change():
    """The other way round: drops behind what the host really changed may land with it."""
    host = chat()
    host.say(assistant([text("ok")]), user("more"))
    fill(host, 4)
    host.turn()
    host.session.reduce("4-5")
    host.messages[1] = assistant([text("ok"), text("and more")])
    assert "divergence" in host.turn().reasons


@pytest.mark.rule("ACC-1")
@pytest.mark.parametrize("codec", ["anthropic", "openai-chat", "pi"])
def test_each_quiet_request_begins_with_the_one_before(codec: str):
    host = Chat(codec=codec, policy=BARE)
    said = (lambda t: [{"type": "text", "text": t}]) if codec == "pi" else (lambda t: t)
    request = host.say(user(said("start")))
    for number in range(12):
        after = host.say(assistant(said(f"ok {number}")), user(said(f"go on {number}")))
        use(after, 1_000 + number)
        assert after.level == "defer"
        assert goes_on(request, after)
        request = after


@pytest.mark.rule("ACC-2")
def test_behind_a_rebuild_the_prefix_stands_at_once():
    host = chat()
    request = fill(host, 20, 900)
    host.session.reduce("2-7")
    use(request, 140_000)
    rebuilt = host.turn()
    assert rebuilt.level == "soft+"
    assert sum(tag.status == "active" and tag.kind == "tool" for tag in host.state.tags) > 6, "more could go"
    request = rebuilt
    for _ in range(5):
        use(request, 100_000)
        after = host.turn()
        assert after.level == "defer"
        assert goes_on(request, after), "no second rewrite behind the first"
        request = after


class Coming:
    """Summaries of which one may always still come."""

    def outlook(self, core: Any) -> Outlook:
        return Outlook(coming=True)

    def watch(self, core: Any) -> None: ...

    def close(self) -> None: ...


@pytest.mark.rule("ACC-3")
def test_an_old_call_of_ctx_reduce_stays_until_a_rebuild_however_far_the_tail_grows():
    host = chat()
    fill(host, 1)
    for number in range(5):
        host.tool(f"r{number}", "Queued: drop.", name="ctx_reduce", drop=str(number))
    request = lost(host)
    host.session.core.summaries = Coming()
    host.session.reduce("2")
    for number in range(60):
        use(request, 140_000)
        after = host.tool(f"u{number}", "x", n=number)
        assert host.last().decision.held, "something waits, and a summary may come"
        assert goes_on(request, after)
        assert wire(after).count('"ctx_reduce"') == 5
        request = after


@pytest.mark.rule("T52", "LAW-1")
def test_a_cold_process_serves_what_the_hot_one_does():
    """Everything at once, hot and cold: images, reasoning, silences, drops, files, blanks, another model."""

    def play(cold: bool) -> list[bytes]:
        host = chat(model="claude-opus-4-5", policy={"cache_ttl": "never"})
        digests = []

        def said(request: Any) -> None:
            digests.append(request.digest)
            use(request, 2_000 * len(digests))
            if cold:
                host.session.core._hot = None

        said(host.say(assistant([thinking(), text("ok"), text("\n")]), user([text("see"), image()])))
        for number in range(8):
            said(host.tool(f"t{number}", tokens(500), *([thinking("so")] if number % 2 else []), n=number))
        said(host.turn("back", wait=900))
        host.session.reduce("3-6")
        host.session.flush()
        said(host.turn())
        host.reopen(model="gpt-5")
        said(host.turn())
        said(lost(host))
        said(lost(host))
        said(host.turn("again", wait=400))
        return digests

    assert play(cold=True) == play(cold=False)


@pytest.mark.rule("ACC-12")
def test_the_newest_answers_reasoning_is_sent_as_it_came():
    """Whatever leaves before it: by drops, by the host's own hand, by a rebuild."""
    host = chat(model="claude-opus-4-5")
    fill(host, 6)
    block = {"type": "thinking", "thinking": "Ünï  \n kept", "signature": "c2lnbmVk"}
    host.say(assistant([block, call("last", n=1)]), user([result("last", "done")]))
    raw = json.dumps(block, ensure_ascii=False, separators=(",", ":"))
    del host.messages[1:3]
    assert raw in wire(host.again())
    host.session.reduce("3-5")
    host.session.flush()
    assert raw in wire(host.say(user("and?")))
    host.session.report_cache_loss("said so")
    assert raw in wire(host.say(user("well?")))


# ------------------------------------------------------------- one permission


@pytest.mark.rule("T5", "LAW-4")
def test_no_lane_works_out_a_permission_of_its_own():
    """A lane reads the one that is handed to it; what permission is made of stands in no lane."""
    made_of = {"run", "flush", "lost", "reopened", "held", "failures", "marked", "permit"}
    for file in sorted((HOME / "passes" / "lanes").glob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        read = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not read & made_of, file.name
    decide = (HOME / "passes" / "decide.py").read_text(encoding="utf-8")
    assert decide.count("permission.allow(") == 1


@pytest.mark.rule("T10", "PERM-11")
def test_each_signal_is_consumed_by_the_pass_it_makes_and_by_no_other():
    host = chat()
    request = fill(host, 6)
    for signal in ("flush", "cache_loss", "open_rebuild"):
        if signal == "flush":
            host.session.reduce("2")
            host.session.flush()
        elif signal == "cache_loss":
            host.session.report_cache_loss("said so")
        else:
            host.again().report_failure("not_processed")
        request = host.turn()
        assert signal in request.reasons
        assert set(request.reasons) & {"flush", "cache_loss", "open_rebuild"} == {signal}
    for _ in range(5):
        after = host.turn()
        assert (after.level, after.reasons) == ("defer", ())
        assert goes_on(request, after)
        request = after


@pytest.mark.rule("T11", "PERM-9")
def test_a_permission_that_frees_nothing_lets_nothing_be_looked_for():
    """In the force band each pass may rebuild; where nothing can go, no lane has work and nothing is edited."""
    host = chat()
    host.say(assistant("ok"), user(tokens(3_000)))
    for _ in range(8):
        request = host.turn()
        use(request, 180_000)
    for event in events(host.session, ev.PassDeferred)[4:]:
        assert event.decision.permission
        assert event.decision.lanes == ()
        assert all(not arrival.edits for arrival in event.arrivals)


@pytest.mark.rule("T46", "FOLD-3")
def test_a_fold_has_a_cause_that_lost_the_prefix_and_grants_nothing_without_one():
    """The closed list: each means that what the provider keeps is lost, or that the head's own content is void."""
    tree = ast.parse(Path(triggers.__file__).read_text(encoding="utf-8"))
    (found,) = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == "fold_reasons"]
    said = {node.value for node in ast.walk(found) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    names = {name for name in said if name.replace("_", "").isalpha() and " " not in name}
    assert names == {
        "first_render", "model_change", "system_hash", "tools_change", "ttl_idle", "cache_loss", "host_compaction",
        "cut_void",
    }  # fmt: skip
    host = chat()
    request = fill(host, 4)
    host.session.reduce("2")
    before = host.again()
    host.session.report_cache_loss("said so")
    folded = host.turn()
    assert folded.built.messages[:2] == before.built.messages[:2], "the head is the same bytes, and the drop rides"
    assert host.state.tags[1].status == "dropped"
    assert host.turn().level == "defer"
    assert request.level == "defer"


@pytest.mark.rule("T26")
def test_drops_land_in_the_middle_of_a_turn():
    """The agent works on and on, nobody says a word: pressure is enough, no turn has to end."""
    host = chat(lanes=False)
    request = fill(host, 12, 900)
    host.session.reduce("2-8")
    levels = []
    for number in range(12, 16):
        use(request, 140_000)
        request = host.tool(f"t{number}", "x", n=number)
        levels.append(request.level)
    assert "soft+" in levels
    assert host.state.tags[1].status == "dropped"


@pytest.mark.rule("T30")
@pytest.mark.parametrize("unknown", [(), ("system",), ("tools",), ("system", "tools")])
@pytest.mark.parametrize("told", [False, True])
def test_an_unknown_signal_triggers_nothing(unknown: tuple[str, ...], told: bool):
    """What a request asks for beside its messages is no part of the prefix here: there is no signal for it at all."""
    fields = set(foldlog.Session.prepare.__annotations__)
    assert fields == {"messages", "system", "tools", "now", "waiting", "return"}
    host = Chat(model="m")
    tools = [{"name": "Bash", "description": "runs", "input_schema": {"type": "object"}}]
    host.say(user("start"), **({"system": "s", "tools": tools} if told else {}))
    assert host.turn(**dict.fromkeys(unknown)).level == "defer"
    assert host.turn().level == "defer"


@pytest.mark.rule("T32")
def test_the_tools_of_one_session_are_not_anothers():
    tools = [{"name": name, "description": name, "input_schema": {"type": "object"}} for name in ("Bash", "Read")]
    engine = foldlog.Engine.open("memory:", summarizer=None)
    one, other = Chat(engine, "one"), Chat(engine, "other")
    one.say(user("start"), tools=tools)
    other.say(user("start"), tools=tools[:1])
    for _ in range(2):
        assert one.turn(tools=tools).level == "defer"
        assert other.turn(tools=tools[:1]).level == "defer"
    assert one.turn().level == "defer", "no list given is the list there was"


# --------------------------------------------------- numbers, ids, absent things


@pytest.mark.rule("T7", "FAIL-2")
@pytest.mark.parametrize("after", [0, 1, 3, 6])
def test_a_walk_that_breaks_in_the_middle_numbers_nothing(after: int, monkeypatch: pytest.MonkeyPatch):
    def more(host: Chat) -> Any:
        return host.say(
            assistant([text("a"), call("x"), call("y")]),
            user([result("x", "1"), result("y", "2"), text("b"), text("c")]),
        )

    plain, host = chat(), chat()
    more(plain)
    before, real, calls = fingerprint(host.session), tagger.taggable, []

    def breaking(*given: Any) -> bool:
        calls.append(given)
        if len(calls) > after:
            raise ValueError("a collision")
        return real(*given)

    with monkeypatch.context() as patch:
        patch.setattr(tagger, "taggable", breaking)
        with pytest.raises(foldlog.PassFailed):
            more(host)
    assert fingerprint(host.session) == before
    host.again()
    assert [(tag.m, tag.p) for tag in host.state.tags] == [(tag.m, tag.p) for tag in plain.state.tags]


def _chat_tool(host: Chat, id: str, output: str, name: str, **arguments: Any) -> Any:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return host.say(
        {"role": "assistant", "content": None, "tool_calls": [{"id": id, "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": id, "content": output},
    )


@pytest.mark.rule("T8", "DEDUP-1", "TAG-11")
def test_an_id_used_again_is_dropped_queued_and_compared_by_turn():
    host = chat(codec="openai-chat")
    for number in range(4):
        _chat_tool(host, "same", f"{number % 2} " + tokens(400), "Read", path=f"/f{number % 2}")
    for number in range(4):
        _chat_tool(host, f"u{number}", "x", "Bash")
    lost(host)
    gone = [number for number, tag in enumerate(host.state.tags, 1) if tag.status == "dropped"]
    assert gone == [2, 3], "of two equal looks the older, whatever id they carry"
    other = Chat(codec="openai-chat", policy=BARE)
    other.say(user("start"))
    for number in range(5):
        _chat_tool(other, "same", f"{number} " + tokens(400), "Bash", n=number, script=tokens(600))
    other.session.reduce("3")
    other.session.flush()
    other.say(user("go on"))
    _chat_tool(other, "same", "once more", "Bash")
    states = [tag.status for tag in other.state.tags if tag.kind == "tool"]
    assert states == ["active", "dropped", "active", "active", "active", "active"]
    assert other.state.tags[2].mode == "full"


@pytest.mark.rule("T36", "T48", "ACC-9")
def test_what_an_array_lacks_for_once_is_kept_and_never_dropped_meanwhile():
    """Half of the results are missing from one array, through two rebuilds; they come back with numbers and content."""
    host = chat()
    fill(host, 8)
    whole = list(host.messages)
    lost(host)
    kept = list(host.messages)
    host.messages = [*whole[:9], *kept[len(whole) :]]
    lost(host)
    lost(host)
    absent = [number for number, tag in enumerate(host.state.tags, 1) if tag.kind == "tool" and tag.m > 9]
    assert absent
    assert all(host.state.tags[number - 1].status == "active" for number in absent), "no drop of what is not there"
    assert any(tag.status == "dropped" for tag in host.state.tags), "what is there was swept"
    host.messages = kept
    back = wire(host.again())
    for number in absent:
        assert f"§{number}§ " in back
    assert differences(host.engine) == []


@pytest.mark.rule("T21", "T47", "DROP-10")
def test_only_what_can_go_now_is_counted():
    """Open calls, things off the path and protected ones are queued and weigh nothing: no pressure, no rebuild."""
    host = chat(lanes=False, policy={"protected_tokens": 100_000})
    request = fill(host, 8, 2_000)
    host.session.reduce("2-9")
    for _ in range(4):
        use(request, 140_000)
        request = host.turn()
        decision = host.last().decision
        assert (request.level, decision.drainable, decision.held) == ("defer", 0, False)
    assert len(host.state.queue) == 8


@pytest.mark.rule("ACC-17", "IDENT-7")
@pytest.mark.parametrize("flag", ["foldlog", "synthetic", "isMeta", "cache_control"])
def test_no_flag_makes_a_hosts_message_our_head(flag: str):
    host = chat()
    head = json.loads(host.again().messages_json[0])
    forged = {**head, flag: True} if flag != "cache_control" else {**head, "id": "m0"}
    request = host.say(assistant("ok"), forged, assistant("so"), user("go on"))
    assert len(host.state.path) == 5, "it is a message of the path like any other"
    assert request.built.head == 2
    assert request.built.owners.count(0) == 2


# ------------------------------------------------------------- words, inserts


@pytest.mark.rule("T12", "SAY-1", "SAY-2")
def test_what_is_said_is_said_at_the_live_end_and_nowhere_else():
    """Silences and nudges over a long session, several messages at once: each stands in what is newest, and stays."""
    host = chat(context_limit=1_000_000, lanes=False, policy={"cache_ttl": "never"})
    host.engine.ports.notes, host.engine.ports.search = ports.Notes(), ports.Search(ports.found())
    use(host.turn(), 100)
    request, said = host.again(), set[str]()
    for number in range(24):
        answer = assistant("committed 1a2b3c4" if number % 8 == 0 else "so")
        host.messages += [answer, user(f"first of the words {number}"), assistant([call(f"t{number}", n=number)])]
        output = user([result(f"t{number}", tokens(5_000) + str(number))])
        after = (
            host.say(output)
            if number % 3
            else host.say(output, assistant("ok"), user("back again now, and on"), wait=700)
        )
        use(after, 1_000)
        assert goes_on(request, after)
        event = events(host.session, ev.PassDeferred)[-1]
        ours = [one for arrival in event.arrivals for one in arrival.edits if isinstance(one, e.SetText)]
        said |= {one.kind for one in (*ours, *event.inserts)}
        assert {one.m for one in (*ours, *event.inserts)} <= {host.state.end()}
        request = after
    assert said == {"time", "hint", "note", "nudge", "text"}


@pytest.mark.rule("T12")
@pytest.mark.parametrize("what", ["nudge", "time", "hint", "note"])
def test_nothing_is_said_in_what_comes_anew_before_the_end(what: str, monkeypatch: pytest.MonkeyPatch):
    """A host that writes an older message anew brings parts no request held, and they are not the end."""
    host = chat(context_limit=1_000_000, lanes=False, policy={"cache_ttl": "never"})
    host.engine.ports.notes, host.engine.ports.search = ports.Notes(), ports.Search(ports.found())
    with monkeypatch.context() as patch:
        patch.setattr(words, "WORDS", [word for word in words.WORDS if word.name == "note"])
        host.turn()
        host.say(assistant("committed 1a2b3c4"), user("fine"))
        host.engine.ports.notes.calls.clear()
        patch.setattr(words, "WORDS", ())
        for number in range(16):
            request = host.tool(f"t{number}", tokens(5_000) + str(number), n=number)
    use(request, 1_000)
    place = next(n for n, one in enumerate(host.messages) if "tool_result" in str(one)) if what == "nudge" else 2
    anew = [result("t0", "anew")] if what == "nudge" else "start anew, with all of the words of it"
    host.messages[place] = user(anew)
    host.again(wait=700)
    event = events(host.session, ev.PassDeferred)[-1]
    assert [arrival.m for arrival in event.arrivals] == [place + 1]
    assert not [one for one in event.arrivals[0].edits if isinstance(one, e.SetText)]
    assert event.inserts == ()
    assert host.state.reminder.due, "with new words it would be said"


@pytest.mark.rule("T13", "T14", "LAW-3")
@pytest.mark.parametrize("kind", ["none", "text"])
@pytest.mark.parametrize("new", [False, True])
def test_a_deferred_pass_cannot_take_an_insert_away(kind: Any, new: bool):
    """Neither behind what was shown, nor behind what it shows itself, where one of that name may not stand."""
    host = chat()
    last, view, m = host.last(), host.session.core.hot().view, host.state.end() + new
    arrivals = (e.Arrival(m, 0, (9,)),) if new else ()
    if kind == "text":
        view.anchors["todo-1"] = 1
    taken = ev.PassDeferred(last.at, "", 2, last.now, last.wire, 1, arrivals, (e.Insert(m, 0, "todo-1", kind),), b"", 1)
    with pytest.raises(LawBroken):
        views.preview(view, taken, {})


# ------------------------------------------------------------- other providers


def everywhere(host: Chat) -> Any:
    host.say(assistant("an answer of some words"), user("more"))
    for number in range(30):
        before = [] if number % 4 else [{"role": "assistant", "content": "so"}]
        host.messages += before
        host.say(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": f"t{number}{k}", "type": "function", "function": {"name": "Bash", "arguments": "{}"}}
                    for k in "ab"
                ],
            },
            *({"role": "tool", "tool_call_id": f"t{number}{k}", "content": tokens(300)} for k in "ab"),
        )
    host.session.reduce("2,4-9,12")
    return host


@pytest.mark.rule("T16", "ACC-10", "T17")
def test_on_openais_wire_no_text_is_empty_and_no_sentinel_stands_anywhere():
    """With every lane on, over several rebuilds: arcs leave whole, nothing is cleared in place."""
    host = everywhere(chat(codec="openai-chat", model="kimi-k2"))
    for _ in range(4):
        request = lost(host)
        body = {"model": "gpt-5", "messages": request.messages}
        assert checker.openai.check(body) == []
        said = wire(request)
        assert "[cleared]" not in said
        for message in request.messages:
            if message["role"] != "assistant" or not message.get("tool_calls"):
                assert message["content"]
    assert any(tag.status == "dropped" and tag.mode == "full" for tag in host.state.tags)


@pytest.mark.rule("T16", "ACC-10")
def test_nothing_is_ever_cleared_or_emptied_in_place():
    """Reasoning is kept or gone; texts are kept, shorter, placeholders or gone: no pass has the other words."""
    said = {
        (file.name, node.value)
        for file in (HOME / "passes").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in ("cleared", "empty", "[cleared]")
    }
    assert said == set()


@pytest.mark.rule("T29", "T51", "LAW-5")
def test_a_rebuild_edits_no_object_of_the_host():
    host = chat()
    fill(host, 6)
    before = json.dumps(host.messages)
    host.session.reduce("2-4")
    host.session.flush()
    request = host.turn()
    request.messages[0]["content"] = "spoilt"
    assert json.dumps(host.messages[:-2]) == before
    assert goes_on(request, host.turn())
    assert "spoilt" not in wire(host.again())


def _played(step: Callable[[Chat], Any]) -> Chat:
    host = chat()
    step(host)
    return host


@pytest.mark.rule("T27", "T28", "DROP-1", "DROP-12")
def test_of_the_newest_calls_some_stay_whole_and_none_is_shortened():
    """All of them removed, models wrote fake calls as text; shortened, they copied the marks into real ones."""

    def step(host: Chat) -> None:
        fill(host, 30, 400)
        host.session.reduce("2-31")
        host.session.flush()
        host.turn()

    host = _played(step)
    request = host.turn()
    calls = [
        block
        for message in request.messages
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_use"
    ]
    assert len(calls) == 20
    assert [block["input"] for block in calls] == [{"n": number} for number in range(10, 30)]

"""What the link answers: passes, missing bases, reports, tools, forks (LINK-9 to LINK-13)."""

from __future__ import annotations

import json

import pytest
from structlog.testing import capture_logs

from foldlog import Engine
from foldlog.adapters.hosts import arrays, desk, rpc
from foldlog.domain.errors import StoreBusy
from support.linked import Plugin, step, user


def talk(n: int) -> list[dict]:
    return [user("do the work", 1), *(message for k in range(n) for message in step(k))]


@pytest.mark.rule("LINK-9", "LINK-11")
def test_deferred_passes_only_grow(start, connect):
    running = start()
    plugin = Plugin(running, connect(running.run), model="p/claude-x", context_limit=200_000, system="You are Pi.")
    served: list[str] = []
    for n in range(1, 8):
        answer = plugin.take(talk(n))
        now = [json.dumps(one) for one in plugin.made]
        assert now[: len(served)] == served
        assert answer["level"] == ("hard" if n == 1 else "defer")
        served = now
    assert plugin.made[2]["content"][0]["text"] == "§1§ do the work"
    assert "id" in plugin.made[2]  # the host's, so that the log keeps it


@pytest.mark.rule("LINK-11")
def test_what_the_plugin_made_is_compared(start, connect):
    running = start()
    client = connect(running.run)
    plugin = Plugin(running, client)
    edits = plugin.take(talk(2))["edits"]
    ack = {"session": "s", "number": edits["number"]}
    with capture_logs() as logs:
        assert client.call("ack", digest=edits["digest"], **ack) == {"same": True}
        assert client.call("ack", digest="00", **ack) == {"same": False}
        assert client.call("ack", digest=edits["digest"], missing=["m9"], **ack) == {"same": True}
    assert [(one["made"], one["missing"], one["session"]) for one in logs] == [
        ("00", [], "pi/s"),
        (edits["digest"], ["m9"], "pi/s"),
    ]
    assert client.call("ack", session="s", number=99, digest="00") == {"same": None}


@pytest.mark.rule("LINK-10")
def test_a_restarted_process_asks_for_the_whole_list_once(start, tmp_path, connect):
    url = f"sqlite:///{tmp_path / 's.db'}"
    first = start(url)
    plugin = Plugin(first, connect(first.run))
    plugin.take(talk(3))
    made = plugin.made
    first.stop()
    plugin.running = start(url)
    plugin.client = connect(plugin.running.run)
    order = [[0, len(plugin.told)], *({"message": one} for one in step(3))]
    told = {"session": "s", "base": plugin.version, "order": order, "count": 9}
    error = plugin.client.ask("pass", **told)["error"]
    assert (error["code"], error["data"]["code"]) == (rpc.FAILED, arrays.MISSING_BASE)
    plugin.version, plugin.number = "", 0
    assert plugin.take(talk(4))["level"] == "defer"
    assert plugin.made[: len(made)] == made  # the same bytes as the process before served


@pytest.mark.rule("LINK-10")
def test_two_plugins_of_one_session_do_not_mix(start, connect):
    running = start()
    one, two = (Plugin(running, connect(running.run)) for _ in range(2))
    one.take(talk(2))
    two.take(talk(3))
    error = one.client.ask("pass", session="s", base=one.version, order=[[0, 5]], count=5)["error"]
    assert error["data"]["code"] == arrays.MISSING_BASE


@pytest.mark.rule("LINK-9")
def test_a_message_that_changed_or_went_is_told_alone(start, connect):
    running = start()
    plugin = Plugin(running, connect(running.run))
    plugin.take(talk(4))
    messages = talk(4)
    changed = {**messages[4], "content": [{"type": "text", "text": "another output"}]}
    client = plugin.client
    order = [[0, 4], {"message": changed, "id": str(changed["timestamp"])}, [5, 9]]
    answer = client.call("pass", session="s", base=plugin.version, held=plugin.number, order=order, count=9)
    assert answer["reasons"] == ["host_revised"]
    assert [one["id"] for one in answer["edits"]["messages"]] == [str(changed["timestamp"])]
    answer = client.call("pass", session="s", base=answer["version"], order=[[0, 7]], count=7)
    assert answer["reasons"] == ["host_removed"]


def test_drops_land_where_the_host_is_served(start, connect):
    """LINK-11: a rebuild is told as what changed."""
    running = start()
    plugin = Plugin(running, connect(running.run), context_limit=200_000)
    client = plugin.client
    answer = plugin.take(talk(30))
    before = len(plugin.made)
    said = client.call("tool", session="s", name="ctx_reduce", arguments={"drop": "2-9"}, call="c1")
    assert said["error"] is False
    again = client.call("tool", session="s", name="ctx_reduce", arguments={"drop": "2-9"}, call="c1")
    assert again == said  # a repeated call is applied once
    client.call("usage", session="s", number=plugin.number, input=20_000, output=10, command="r1")
    client.call("flush", session="s")
    answer = plugin.take(talk(31))
    assert answer["level"] == "soft+"
    assert len(plugin.made) < before + 2
    assert "out 1 x" not in json.dumps(plugin.made)
    assert "out 1 x" in client.call("tool", session="s", name="ctx_expand", arguments={"tag": 5})["text"]
    served = plugin.made
    plugin.take(talk(32))
    assert plugin.made[: len(served)] == served


def test_tools_answer_the_model_not_the_link(start, connect):
    """LINK-6: a wrong argument is for the model to read."""
    running = start()
    plugin = Plugin(running, connect(running.run))
    plugin.take(talk(2))
    run = plugin.client.call
    assert run("tool", session="s", name="ctx_reduce", arguments={"drop": "900"})["error"]
    assert run("tool", session="s", name="ctx_reduce", arguments={"drop": ["x"]})["error"]
    assert run("tool", session="s", name="ctx_expand", arguments={})["error"]
    assert run("tool", session="s", name="rm", arguments={})["error"]
    assert "not built yet" in run("tool", session="s", name="ctx_search", arguments={})["text"]


def test_usage_and_failures_reach_the_session(start, connect):
    """LINK-6: reports name their pass; one that is not there is an error of its call."""
    running = start()
    plugin = Plugin(running, connect(running.run), context_limit=100_000)
    client = plugin.client
    number = plugin.take(talk(2))["edits"]["number"]
    client.call("usage", session="s", number=number, input=5_000, cache_read=1_000, output=3)
    assert client.call("status", session="s")["usage_tokens"] == 6_000
    client.call("failure", session="s", number=number, kind="aborted")
    assert client.ask("usage", session="s", number=77, input=1)["error"]["data"]["code"] == "UNKNOWN_TAG"
    assert client.ask("failure", session="s", number=number, kind="odd")["error"]["data"]["code"] == "INVALID_INPUT"


LONG = "prompt is too long: 90001 tokens > 90000 maximum"
MANY = "Too many images and documents: 101 + 0 > 100"
BODY = "413 Request Entity Too Large"
SIGNATURE = "messages.1.content.0: Invalid `signature` in `thinking` block"
OTHER = f"{SIGNATURE}. The block is bound to a different conversation."
ANSWER = (
    "This model's maximum context length is 100000 tokens. You requested 104000 tokens (4000 in the messages, 100000 "
    "in the completion)."
)


def reasoned(n: int) -> list[dict]:
    """Return a session whose answers reason, and show pictures."""
    told = [user("do the work", 1)]
    for k in range(n):
        said, out = step(k, 400)
        thought = {"type": "thinking", "thinking": f"so {k}", "thinkingSignature": f"sig{k}"}
        picture = {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}
        prompt = {**user(f"go on {k}", 5_000 + k), "content": [picture, {"type": "text", "text": f"go on {k}"}]}
        told += [{**said, "content": [thought, *said["content"]]}, out, prompt]
    return told


@pytest.mark.rule("EXT-10", "PAR-9")
@pytest.mark.parametrize(
    ("text", "kind", "again"),
    [
        (LONG, "overflow", True), (MANY, "images", True), (BODY, "bytes", True), (OTHER, "thinking", True),
        (ANSWER, "output_driven", False), ("overloaded", "server", False), ("Rate limit reached", "rate", False),
        (SIGNATURE, "thinking", False), ("what", "unknown", False),
    ],
)  # fmt: skip
def test_one_more_request_is_worth_it_where_it_will_be_another(start, connect, text, kind, again):
    """The first one of a row, as the log has it: a process that was started anew says the same."""
    running = start()
    plugin = Plugin(running, connect(running.run), model="p/claude-x", context_limit=1_000_000)

    def fail(number: int) -> dict:
        return plugin.client.call("failure", session="s", number=number, text=text, command=f"c{number}")

    def answer(number: int) -> None:
        plugin.client.call("usage", session="s", number=number, input=60_000, output=3)

    answer(plugin.take(reasoned(60))["edits"]["number"])
    number = plugin.take(reasoned(61))["edits"]["number"]
    before = plugin.made
    found = fail(number)
    assert (found["kind"], found["again"]) == (kind, again)
    number = plugin.take(reasoned(61))["edits"]["number"]
    assert (plugin.made != before) == again
    running.desk.store.engine().session("s", harness="pi").core._hot = None
    assert fail(number)["again"] is False
    if text is LONG:
        return  # what does not fit after that is refused here
    number = plugin.take([*reasoned(61), user("once more", 9_000)])["edits"]["number"]
    assert fail(number)["again"] is False, "nor where a person tries once more"
    number = plugin.take([*reasoned(61), user("once more", 9_000), user("well", 9_001)])["edits"]["number"]
    answer(number)
    number = plugin.take([*reasoned(61), *(user("so", 9_000 + n) for n in range(3))])["edits"]["number"]
    gone = text is OTHER  # by then no reasoning is left
    assert fail(number)["again"] == (again and not gone), "an answer ends the row"


@pytest.mark.rule("EXT-10", "PAR-9")
@pytest.mark.parametrize("text", [LONG, MANY, OTHER])
def test_without_compaction_no_request_is_worth_one_more(start, connect, text):
    running = start(policy={"compaction": False})
    plugin = Plugin(running, connect(running.run), model="p/claude-x", context_limit=100_000)
    number = plugin.take(talk(8))["edits"]["number"]
    assert plugin.client.call("failure", session="s", number=number, text=text)["again"] is False


@pytest.mark.rule("LINK-13")
def test_helpers_touch_no_session_and_children_are_subagents(start, connect):
    run = start().run
    client = connect(run)
    told = {"session": "h", "order": [{"message": user("title", 1)}], "count": 1}
    assert client.call("pass", helper="title", **told) == {"managed": False}
    assert client.call("status", session="h")["passes"] == 0
    assert client.call("pass", parent="s", **{**told, "session": "c"})["edits"]["head"] is None
    assert client.call("status", session="c")["mode"] == "subagent"


def test_a_fork_goes_on_from_its_parent(start, connect):
    """LINK-9: the prefix of the fork is the one the provider has."""
    running = start()
    plugin = Plugin(running, connect(running.run))
    plugin.take(talk(3))
    plugin.client.call("fork", session="s", new="f", at=str(talk(3)[4]["timestamp"]))
    child = Plugin(running, plugin.client, "f")
    answer = child.take([*talk(2), user("another way", 77)])
    assert answer["level"] == "defer"
    assert child.made[:-1] == plugin.made[: len(child.made) - 1]


@pytest.mark.rule("LINK-12")
def test_a_pass_that_waits_says_so(start, connect):
    running = start(make=lambda _: Engine.open("memory:"))
    plugin = Plugin(running, connect(running.run), context_limit=20_000)
    number = plugin.take(talk(20))["edits"]["number"]
    plugin.client.call("usage", session="s", number=number, input=19_500, output=10)
    plugin.client.ask(
        "pass", session="s", base=plugin.version, order=[[0, 41], *({"message": m} for m in step(20))], count=43,
        context_limit=20_000,
    )  # fmt: skip
    said = plugin.client.noticed
    assert not said or said[0]["params"]["call"] == plugin.client.number


def test_lists_are_told_by_stretches_and_what_is_new():
    """LINK-9: stretches and new elements make the list again."""
    assert arrays.taken("abcd", [(0, 2), "X", (3, 4), (0, 1)], 5, str.lower) == list("abxda")
    for order, count in ([(0, 5)], 5), ([(3, 2)], 0), ([(-1, 2)], 3), ([(0, 2)], 3):
        with pytest.raises(rpc.Problem):
            arrays.taken("abcd", order, count, str)


@pytest.mark.rule("LINK-6")
def test_a_busy_store_is_tried_again_and_then_the_last_view_may_serve(start, connect, monkeypatch):
    monkeypatch.setattr(desk, "BUSY_PAUSES", (0.0, 0.0))
    running = start()
    plugin = Plugin(running, connect(running.run))
    plugin.take(talk(1))
    session = running.desk.store.engine().session("s", harness="pi")
    append, times = session.core.log.append, []

    def busy(*given):
        times.append(1)
        if len(times) in {1, 2, 4, 5, 6}:
            raise StoreBusy("another process holds the store's write lock")
        return append(*given)

    monkeypatch.setattr(session.core.log, "append", busy)
    assert plugin.take(talk(2))["level"] == "defer"
    monkeypatch.setattr(type(session), "last_good", lambda *_, **__: None)  # where that would not be safe
    data = plugin.client.ask("pass", **{**plugin.asked, "base": "", "order": [{"message": user("x", 1)}], "count": 1})
    assert data["error"]["data"] == {
        "code": "STORAGE_BUSY", "recoverable": True, "last_good": True, "unmanaged": False,
    }  # fmt: skip
    assert len(times) == 6


@pytest.mark.rule("LINK-15", "LAST-2")
def test_while_the_store_is_busy_the_last_good_request_goes_out_and_is_recorded(start, connect, monkeypatch):
    """What it sent raw stays raw, in this process and behind it; the plugin made what the log then tells."""
    monkeypatch.setattr(desk, "BUSY_PAUSES", ())
    running = start()
    plugin = Plugin(running, connect(running.run))
    plugin.take(talk(1))
    session = running.desk.store.engine().session("s", harness="pi")
    append, busy = session.core.log.append, [True]

    def appended(*given):
        if busy[0]:
            raise StoreBusy("another process holds the store's write lock")
        return append(*given)

    monkeypatch.setattr(session.core.log, "append", appended)

    def made():
        return list(running.desk._shelf.get(("pi", "s")).request.messages_json)

    served, number = made(), plugin.number
    for n in (2, 3):
        answer = plugin.take(talk(n))
        assert answer["reasons"] == ["last_good"]
        now = made()
        assert now[: len(served)] == served
        assert "§".encode() not in b"".join(now[len(served) :])
        served = now
    assert answer["edits"]["number"] == number + 1
    assert [one["id"] for one in answer["edits"]["messages"]] == [
        "1",
        "1000",
        "1001",
    ]  # nothing for what went out raw
    busy[0] = False
    plugin.client.call("usage", session="s", number=answer["edits"]["number"], input=900, command="r1")
    assert plugin.take(talk(4))["level"] == "defer"
    now = made()
    assert now[: len(served)] == served
    assert "§".encode() in now[-1]
    told = [type(one.event).__name__ for one in session.core.log.read(session.core.stream)]
    assert told.count("LastGoodReplayed") == 1
    assert told.index("UsageReported") > told.index("LastGoodReplayed")
    assert not [one for one in running.desk.store.engine().audit("pi/s").differences if one.kind != "wire"]

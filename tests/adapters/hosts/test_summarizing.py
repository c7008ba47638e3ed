"""Summaries through the host: the process asks the plugin (LINK-14)."""

from __future__ import annotations

import json
import threading

import pytest

from foldlog import FoldlogError
from foldlog.adapters.hosts.summarizing import Relay, ThroughHost
from foldlog.adapters.models.summarizers import Job, Summarised
from foldlog.domain.streams import session_stream

OUTPUT = (
    '<output><compartments><compartment start="1" end="4" title="T" episode_type="infra" importance="50">'
    "<p1>all of it</p1><p2>most</p2><p3>some</p3><p4/></compartment></compartments></output>"
)
JOB = Job((), "[1] U: hello", 1, 4, 100, session=session_stream("pi", "s 1"))


def extractive(job):
    return Summarised((), "extractive", 0, 0, "")


class Plugin:
    """Answers what the process asks, in a thread of its own."""

    def __init__(self, connect, run, answer, host="pi", can=("summarize",)):
        self.client = connect(run, greet=False)
        self.client.call("hello", host=host, protocol=1, token=run.token, can=list(can))
        self.answer, self.asked = answer, []
        self.answered = threading.Event()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while line := self.client.file.readline():
            frame = json.loads(line)
            if "method" not in frame:
                self.answered.set()
                continue
            self.asked.append(frame)
            if self.answer is None:
                self.client.socket.shutdown(2)
                return
            self.client.raw(json.dumps({"jsonrpc": "2.0", "id": frame["id"], **self.answer}).encode() + b"\n")


@pytest.fixture
def ask(start, connect):
    """Return what connects plugins, and a summariser that asks them."""
    running = start()
    plugins = []

    def begin(answer, **named):
        plugins.append(Plugin(connect, running.run, answer, **named))
        return plugins[-1]

    yield begin, ThroughHost(running.desk.relay, extractive)
    running.stop()
    for plugin in plugins:
        plugin.thread.join(5)


def test_the_host_makes_the_summary(ask):
    """LINK-14: prompt and system text are those of the other summarisers, and so is what is made of the answer."""
    plugin, summarize = ask
    made = plugin({"result": {"text": OUTPUT, "input": 50, "output": 9, "model": "m"}})
    found = summarize(JOB)
    assert (found.input_tokens, found.output_tokens, found.model) == (50, 9, "m")
    assert found.summaries[0].tiers[0] == "all of it"
    [asked] = made.asked
    assert asked["method"] == "summarize"
    assert "[1] U: hello" in asked["params"]["prompt"]
    assert "memory of a coding agent" in asked["params"]["system"]
    assert asked["params"]["timeout_ms"] == 240_000


def test_the_sessions_own_plugin_is_asked_first(ask):
    """LINK-14: what another window of the host does is none of this session's."""
    plugin, summarize = ask
    good = {"result": {"text": OUTPUT}}
    other, own, third = plugin(good), plugin(good), plugin(good)
    own.client.send("pass", session="s 1", order=[{"message": {"role": "user", "content": "x"}}], count=1)
    third.client.send("status", session="another")
    assert own.answered.wait(5)
    assert third.answered.wait(5)
    for _ in range(2):
        summarize(JOB)
    assert [len(one.asked) for one in (other, own, third)] == [0, 2, 0]


@pytest.mark.parametrize("named", [{"host": "opencode"}, {"can": ()}])
def test_where_no_plugin_can_the_extractive_one_does(ask, named):
    """LINK-14: another host's plugin, or one that cannot, is not asked."""
    plugin, summarize = ask
    made = plugin({"result": {"text": OUTPUT}}, **named)
    assert summarize(JOB).raw == "extractive"
    assert made.asked == []


def test_a_host_that_ends_meanwhile_is_not_waited_for(ask):
    """LINK-14."""
    plugin, summarize = ask
    plugin(None)
    assert summarize(JOB).raw == "extractive"


@pytest.mark.parametrize(
    "answer", [{"error": {"code": 1, "message": "no quota"}}, {"result": {"text": " "}}, {"result": 5}, {"error": None}]
)
def test_a_host_that_fails_fails_the_run(ask, answer):
    """LINK-14: history stays as it was; the historian tries again a bounded number of times."""
    plugin, summarize = ask
    plugin(answer)
    with pytest.raises(FoldlogError) as caught:
        summarize(JOB)
    assert caught.value.code == "SUMMARISER"


def test_without_a_process_there_is_nobody_to_ask():
    """LINK-14."""
    assert ThroughHost(Relay(), extractive)(JOB).raw == "extractive"

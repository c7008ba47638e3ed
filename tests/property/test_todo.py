"""Any course of a session, on any wire: what is said again is the newest list, whole, where a provider takes it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import foldlog
from support.agent import CODECS, Agent, arcs
from support.machine_host import MUTE
from support.past import summarise
from support.talk import differences, use

MODELS = ["claude-opus-4-5", "claude-sonnet-5-5"]
STATUSES = st.sampled_from(["pending", "in_progress", "completed", "cancelled", "later"])
LISTS = st.lists(st.fixed_dictionaries({"content": st.sampled_from("abc"), "status": STATUSES}), max_size=3)
ACTS = st.one_of(
    st.tuples(st.sampled_from(["step", "step", "ask", "parallel", "drop", "flush", "press", "restart", "rewind"])),
    st.tuples(st.just("list"), LISTS, st.booleans()),
    st.tuples(st.just("cover"), st.integers(1, 6)),
    st.tuples(st.just("lost")),
)


class Course:
    """One session; ``newest``: the newest list that ended well, as its host's array has it."""

    def __init__(self, codec: str, signed: bool, model: str) -> None:
        engine = foldlog.Engine.open("memory:", summarizer=None)
        self.host = Agent(codec, engine, signed=signed, model=model, policy={"protected_tokens": 0})
        self.request = self.host.ask("start")
        self.lists: list[tuple[int, Any]] = []
        self.covered = 0

    def do(self, act: tuple[Any, ...]) -> None:
        host, kind = self.host, act[0]
        before = self.request
        if kind == "list":
            failed = act[2] and host.codec not in MUTE
            self.lists += [] if failed else [(len(host.messages), act[1])]
            self.request = host.list(*act[1], error=act[2])
        elif kind == "step":
            self.request = host.step()
        elif kind == "parallel":
            self.request = host.step(("bash", {"n": 1}), ("read", {"path": "a"}))
        elif kind == "ask":
            self.request = host.ask(f"go on {host.count}")
        elif kind == "cover" and host.starts[act[1] :] and host.starts[act[1]] > self.covered:
            self.covered = host.starts[act[1]]
            summarise(host, self.covered)
        elif kind == "drop":
            state = host.state
            here = [n for n, tag in enumerate(state.tags, 1) if state.pos.get(tag.m, -1) >= state.start()]
            host.session.reduce(",".join(map(str, here[:-1] or here)))
        elif kind == "flush":
            host.session.flush()
        elif kind == "press":
            use(self.request, 180_000)
        elif kind == "restart":
            host.session.core._hot = None
        elif kind == "lost":
            host.session.report_cache_loss("said so")
        elif kind == "rewind" and len(host.starts) > 3 and host.starts[-2] > self.covered:
            del host.messages[host.starts[-2] :]
            del host.starts[-2:]
            self.lists = [one for one in self.lists if one[0] < len(host.messages)]
            self.request = host.ask(f"rather {host.count}")
        if self.request is not before:
            self.check(before)

    def check(self, before: foldlog.Request) -> None:
        request = self.request
        found = arcs(request)
        if request.level == "defer" and not any(reason.startswith("host_") for reason in request.reasons):
            count = len(before.messages_json)
            assert request.messages_json[:count] == before.messages_json
        said = [steps for _, steps in self.lists]
        assert all(arc["todos"] in said for _, arc, _ in found.values())
        if request.level in ("soft", "hard") and found:
            ((_, arc, output),) = found.values()
            newest = self.lists[-1][1]
            assert arc["todos"] == newest, "the newest of all, or none"
            assert [(one["content"], one["status"]) for one in json.loads(output)] == [
                (one["content"], one["status"]) for one in newest
            ]
            assert {one["status"] for one in newest} & {"pending", "in_progress"}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.rule("TODO-1", "TODO-3", "TODO-5", "TODO-6", "TODO-7", "PROP-1", "PROP-2")
@settings(max_examples=15, deadline=None)
@given(st.lists(ACTS, min_size=5, max_size=24), st.booleans(), st.sampled_from(MODELS))
def test_any_course_of_a_session(codec: str, acts: list[tuple[Any, ...]], signed: bool, model: str) -> None:
    course = Course(codec, signed, "gpt-5" if codec == "openai-responses" else model)  # there nothing is bound
    for act in acts:
        course.do(act)
    course.do(("lost",))
    course.do(("step",))
    assert differences(course.host.engine) == []
    course.host.engine.close()

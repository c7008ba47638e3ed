"""A session of the real OpenCode, recorded at its hooks, played through the plugin and the process again."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from foldlog.projections.wire import v1
from support.node import needs_node, run

pytestmark = needs_node
HOST = Path(__file__).with_name("host.mjs")
RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("recorded.json").read_text("utf-8"))
TRANSFORM = "experimental.chat.messages.transform"


def steps() -> list[dict[str, Any]]:
    """Return what the host did, as the played host does it again."""
    found: list[dict[str, Any]] = []
    for step in RECORDED["steps"]:
        if "messages" in step:
            output = {"messages": [RECORDED["messages"][place] for place in step["messages"]]}
            found.append({"hook": TRANSFORM, "output": output})
        elif "system" in step:
            given = {"input": {"sessionID": step["session"]}, "output": {"system": step["system"]}}
            found.append({"hook": "experimental.chat.system.transform", **given})
        elif "text" in step:
            found.append({"hook": "experimental.text.complete", "output": {"text": step["text"]}})
        else:
            found.append(step)
    return found


@pytest.mark.parametrize("flushed", [False, True])
def test_a_recorded_session_is_managed_to_its_end(start, flushed):
    """OC-1, OC-3, OC-4, OC-5, OC-7, EDIT-3: the host's own arrays, subagent and notes of it included."""
    running = start()
    played = steps()
    if flushed:
        passes = [place for place, step in enumerate(played) if step.get("hook") == TRANSFORM]
        main = next(iter(RECORDED["sessions"]))
        command = {"command": "ctx-flush", "sessionID": main}
        played.insert(passes[-1], {"hook": "command.execute.before", "input": command})
    host = {"sessions": RECORDED["sessions"], "providers": RECORDED["providers"]}
    done = run(HOST, {"steps": played, **host})
    wanted = [["info", "what is marked leaves with the next request: 7 parts"]] if flushed else []
    assert done["notices"] == wanted
    engine = running.desk.store.engine()
    assert len(engine.sessions()) == 2
    assert all(engine.audit(name).differences == () for name, _ in engine.sessions())
    made: dict[str, list[list[dict[str, Any]]]] = {}
    for step, result in zip(played, done["results"], strict=True):
        if step.get("hook") == TRANSFORM:
            session = step["output"]["messages"][0]["info"]["sessionID"]
            made.setdefault(session, []).append(result["messages"])
    assert made.keys() == RECORDED["sessions"].keys()
    for session, requests in made.items():
        name = f"opencode/{session}"
        for number, messages in enumerate(requests, 1):
            built = engine.replay(name, number)
            shown = [v1.blocks("opencode", v1.encode(message)) for message in messages]
            assert shown == [v1.blocks("opencode", raw) for raw in built.messages], (session, number)
        deferred = requests[:-1] if flushed else requests
        for before, after in itertools.pairwise(deferred):
            assert after[: len(before)] == before
    child = next(info for one in RECORDED["sessions"].values() if "parentID" in (info := one["info"]))
    parent = engine.session(child["parentID"], harness="opencode").status()
    assert engine.session(child["id"], harness="opencode").status().mode == "subagent"
    assert (parent.mode, parent.model, parent.usage_source) == ("primary", "scripted/scripted-1", "provider")
    assert (parent.dropped > 0) is flushed
    assert parent.queued + parent.dropped == 7


def test_the_recording_holds_nothing_of_the_machine_it_was_made_on():
    text = json.dumps(RECORDED)
    for word in ("apiKey", "sk-", "/root"):
        assert word not in text

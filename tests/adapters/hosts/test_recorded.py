"""Sessions that Pi and OMP really had with the extension, played again: what the hosts handed over, and what they got.

Recorded from runs of ours against a scripted provider. What a message becomes is part of the wire version and must be
the same for ever; when content leaves is the policy's, and may change.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from pathlib import Path

import pytest

from foldlog.adapters.hosts import arrays
from support.node import needs_node, run

HERE = Path(__file__).parent
RECORDED = sorted((HERE / "recorded").glob("*.json"))


@needs_node
@pytest.mark.parametrize("file", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_session_gets_the_same_requests(start, file):
    """EXT-1, EXT-2, EXT-5, EXT-6, LAW-3: on the hosts' own messages."""
    start()
    recorded = json.loads(file.read_text())
    messages = recorded["messages"]
    steps = []
    for step in recorded["steps"]:
        if "context" in step:
            steps.append({"on": "context", "event": {"messages": messages[: step["context"]]}})
        elif "answered" in step:
            steps.append({"on": "message_end", "event": {"message": step["answered"]}})
        elif "tool_call" in step:
            steps.append({"on": "tool_call", "event": {"input": step["tool_call"]}})
        else:
            steps.append({key: step[key] for key in ("tool", "id", "params")})
    done = run(HERE / "pi_host.mjs", {"steps": steps, "omp": recorded["host"] == "omp", "model": recorded["model"]})
    assert (done["aborts"], done["notices"]) == (0, [])

    made = []
    stored = {message.get("responseId"): message for message in messages if message["role"] == "assistant"}
    for step, result in zip(recorded["steps"], done["results"], strict=True):
        if "context" in step:
            made.append([json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in result["messages"]])
            if "made" in step:
                assert hashlib.sha256("\n".join(made[-1]).encode()).hexdigest() == step["made"]
        elif "answered" in step and step["answered"]["responseId"] in stored:
            kept = (result or {}).get("message", step["answered"])
            text = [block["text"] for block in kept["content"] if block["type"] == "text"]
            was = stored[step["answered"]["responseId"]]
            assert text == [block["text"] for block in was["content"] if block["type"] == "text"]
        elif "tool" in step:
            assert result == step["text"]
    assert sum("made" in step for step in recorded["steps"]) > 10
    changed = [after[: len(before)] != before for before, after in itertools.pairwise(made)]
    assert sum(changed) <= 2  # a rebuild for what was marked; all other requests only grow


@needs_node
def test_lists_told_by_the_plugin_are_taken_as_they_are():
    """LINK-9: however a host changes its list, the process gets the same one, and only what is new travels."""
    draw = random.Random(5)
    pairs = []
    for _ in range(300):
        before = [[f"m{n}", draw.randrange(3)] for n in range(draw.randrange(12))]
        now = [list(one) for one in before]
        for _ in range(draw.randrange(4)):
            at = draw.randrange(len(now) + 1)
            if draw.random() < 0.5:
                now.insert(at, [f"n{draw.randrange(100)}{at}", 0])
            elif at < len(now):
                now[at : at + 1] = [] if draw.random() < 0.5 else [[now[at][0], 9]]
        pairs.append((before, now + [["end", 1]] * draw.randrange(2)))
    for (before, now), told in zip(pairs, run(HERE / "lists.mjs", pairs), strict=True):
        order = [tuple(item) if isinstance(item, list) else item for item in told]
        made = arrays.taken(before, order, len(now), lambda item: [item["id"], item["message"]])
        assert made == now
        fresh = [item for item in order if isinstance(item, dict)]
        assert len(fresh) <= sum(one not in before for one in now) + max(len(now) - len(before), 0)

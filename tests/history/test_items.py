"""Sessions of items with a past: drops and summaries, every request valid, no reasoning parted from its answer."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import checker
import pytest

import foldlog
from foldlog.adapters.models.summarizers import Extractive
from foldlog.adapters.models.tokens import tokenizer
from foldlog.adapters.simulate.play import reduces
from foldlog.adapters.traces.generator import generate
from foldlog.adapters.traces.model import Trace
from foldlog.adapters.traces.reader import load
from foldlog.domain.errors import UnknownTag
from support.as_items import converted
from support.past import Clock, opened

SHARED = Path(__file__).resolve().parents[2] / ".." / "shared" / "traces"
RECORDED = ("claude-code-a-opus46", "claude-code-b-sonnet45")
CODEC = "openai-responses"
BESIDE = 8


def played(trace: Trace, engine: foldlog.Engine, clock: Clock, window: int) -> dict[str, int]:
    """Play ``trace`` with a drop now and then; judge each request, every ``BESIDE``-th beside the raw one too."""
    session = engine.session(trace.name, codec=CODEC, model=trace.model, context_limit=window)
    judge = checker.responses.Incremental(json.loads(trace.tools or b"null"), json.loads(trace.system or b"null"))
    counts: dict[str, int] = {}
    messages: list[bytes] = []
    for index, step in enumerate(trace.steps):
        for call, drop in reduces(CODEC, step.messages):
            with suppress(UnknownTag):  # some of it went into a summary meanwhile
                session.reduce(drop, command=call)
        if index % 12 == 11:
            state = session.core.hot().state
            tags = ((number, state.tags[number - 1]) for number in state.tools_order[:-8])
            old = [n for n, tag in tags if tag.status == "active" and state.pos.get(tag.m, -1) >= state.start()]
            if old:
                session.reduce(",".join(map(str, old[-60::3])))
        messages += step.messages
        clock.now = max(clock.now, step.at)
        request = session.prepare(messages, system=trace.system, tools=trace.tools, now=clock.now / 1000)
        counts[request.level] = counts.get(request.level, 0) + 1
        sent = {"input": request.messages, "tools": request.tools, "instructions": request.system}
        assert judge.request(sent) == [], (index, request)
        if index % BESIDE == 0 or request.level != "defer":
            raw = {"input": [json.loads(item) for item in messages]}
            assert checker.responses.check_against(raw, sent) == [], (index, request)
            counts["beside"] = counts.get("beside", 0) + 1
        request.report_usage(input=request.usage_estimate, now=clock.now / 1000)
    return counts


def check(trace: Trace, window: int, capsys: Any) -> None:
    clock = Clock()
    clock.now = trace.steps[0].at
    with opened("memory:", Extractive(tokenizer()), clock=clock) as engine:
        counts = played(trace, engine, clock, window)
        session = engine.session(trace.name)
        state = session.core.hot().state
        reasoned = sum(tag.mode == "full" for tag in state.tags)
        faults = [one for one in engine.audit(trace.name).differences if one.kind != "wire"]
        with capsys.disabled():
            told = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
            print(
                f"\n{trace.name} as items in {window:,}: {told}; {session.status().dropped} drops ({reasoned} whole), "
                f"{len(state.compartments)} compartments, cut behind {state.start()} of {len(state.path)} items"
            )
        assert faults == []
        assert counts["hard"] > 1
        assert state.start() > 0
        assert session.status().dropped > 0
        assert reasoned > 0


@pytest.mark.slow
@pytest.mark.rule("ITEM-5", "ITEM-6", "ITEM-7", "PROP-2")
@pytest.mark.parametrize(("seed", "window"), [(3, 50_000), (4, 70_000)])
def test_a_generated_session_goes_on_beyond_its_window(seed: int, window: int, capsys: Any) -> None:
    check(generate(seed, 140, codec=CODEC), window, capsys)


@pytest.mark.slow
@pytest.mark.rule("ITEM-5", "ITEM-6", "ITEM-7", "PROP-2")
@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_session_goes_on_beyond_its_window(name: str, capsys: Any) -> None:
    path = SHARED / f"{name}.jsonl"
    if not path.exists():
        pytest.skip("the shared traces are not beside this checkout")
    check(converted(load(path)), 60_000, capsys)

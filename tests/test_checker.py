"""The checker of provider requests accepts what real hosts sent, and each of its rules rejects a mutant of its own."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from checker import Violation, anthropic, broken_rules, examples, mutants, openai, pi, recorded, responses, thinking
from checker.base import clone

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
TRACES = SHARED / "traces"
SAMPLES = SHARED / "hosts" / "samples"
RULES = {**anthropic.RULES, **thinking.RULES, **openai.RULES, **pi.RULES, **responses.RULES}
CHECKS: dict[str, Callable[[Any], list[Violation]]] = {
    "anthropic": anthropic.check,
    "openai": openai.check,
    "pi": pi.check,
    "responses": responses.check,
}
EXAMPLES: dict[str, Callable[[], Any]] = {
    "anthropic": examples.anthropic_request,
    "anthropic-against": examples.anthropic_running,
    "openai": examples.openai_request,
    "pi": examples.pi_messages,
    "responses": examples.responses_request,
    "responses-against": examples.responses_request,
}
PARTS = {"anthropic": "messages", "openai": "messages", "responses": "input"}
COUNTS = {
    "claude-code-a-opus46": 259,  # the table of traces/README.md
    "claude-code-b-sonnet45": 290,
    "mini-swe-a-sqlfluff-deepseek": 157,
    "pi-a-opus45": 484,
}

needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason="../shared/traces is absent")
needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="../shared/hosts/samples is absent")


def _judge(family: str, valid: Any, request: Any) -> list[Violation]:
    """Judge ``request``; the rules on thinking see the ``valid`` one beside it."""
    if family == "anthropic-against":
        return [*anthropic.check(request), *thinking.check_against(valid, request)]
    if family == "responses-against":
        return [*responses.check(request), *responses.check_against(valid, request)]
    return CHECKS[family](request)


@cache
def _trace(name: str) -> tuple[recorded.Call, ...]:
    return tuple(recorded.calls(TRACES / name))


@cache
def _sample_requests() -> tuple[tuple[str, str, dict[str, Any]], ...]:
    """Return (path, family, body) of every sample of a whole Anthropic, Chat Completions or Responses request."""
    found = []
    for path in sorted(SAMPLES.rglob("*.json")):
        if not path.parent.name.startswith("wire_") and "before_provider_request" not in path.name:
            continue
        sample = json.loads(path.read_text(encoding="utf-8"))
        body = sample.get("body", sample.get("payload"))
        if isinstance(body, dict) and "messages" in body:
            chat = "chat-completions" in path.name
            found.append((str(path.relative_to(SAMPLES)), "openai" if chat else "anthropic", body))
        elif isinstance(body, dict) and "input" in body:
            found.append((str(path.relative_to(SAMPLES)), "responses", body))
    return tuple(found)


def _recorded_sources(family: str) -> Iterator[tuple[str, Any]]:
    """Yield (name, request) of recorded requests for mutants: an early one of each trace, and a long one."""
    if family.startswith("responses"):  # there is no trace of this wire, only samples
        if SAMPLES.is_dir():
            yield from ((path, body) for path, kind, body in _sample_requests() if kind == "responses")
        return
    if not TRACES.is_dir():
        return
    for name in recorded.NAMES:
        calls = _trace(name)
        wire = calls[0].family
        if family == "pi":
            if name.startswith("pi-"):
                yield name, list(calls[60].agent_messages)
        elif family == "anthropic-against" and wire == "anthropic":
            yield from ((name, call.request) for call in calls[40:100:10])
        elif family == wire:
            yield name, calls[60].request
            if name == "claude-code-a-opus46.jsonl":  # one long request is enough: breaking it means copying it
                yield name, calls[-1].request


@cache
def _recorded_verdicts(name: str) -> tuple[list[Violation], ...]:
    """Return the verdict on every recorded request of a trace, each over its whole length, incrementally."""
    calls = _trace(name)
    state = (anthropic if calls[0].family == "anthropic" else openai).Incremental()
    return tuple(state.request(call.request) for call in calls)


@cache
def _mutant_verdicts(index: int) -> tuple[list[tuple[str, list[Violation]]], list[tuple[str, list[Violation]]]]:
    """Return the verdicts on a mutant made by hand, and on those made from recorded requests that can carry it."""
    _, mutate, family = mutants.MUTANTS[index]
    valid = EXAMPLES[family]()
    found = []
    for name, request in _recorded_sources(family):
        try:
            found.append((name, _judge(family, request, mutate(request))))
        except mutants.NotApplicable:
            continue
    return [("hand-written", _judge(family, valid, mutate(valid)))], found


# What must be accepted


@needs_traces
@pytest.mark.parametrize("name", recorded.NAMES)
def test_every_recorded_request_is_accepted(name: str) -> None:
    verdicts = _recorded_verdicts(name)
    assert len(verdicts) == COUNTS[name.removesuffix(".jsonl")]
    for number, found in enumerate(verdicts, 1):
        assert found == [], f"{name}, call {number}"


@needs_traces
def test_recorded_requests_follow_the_convention() -> None:
    aborted = [call for call in _trace("pi-a-opus45.jsonl") if call.outcome != "answered"]
    assert Counter(call.outcome for call in aborted) == {"aborted": 18, "error": 1}
    last = json.dumps(_trace("pi-a-opus45.jsonl")[-1].request)
    assert last.count("No result provided") == 1  # five more calls without a result stand in aborted turns
    assert "toolu_01571BXn2nSXvrR7sxVHAXXE" in last
    assert "toolu_0134E2F4jLV9HVUFhunmam8N" not in last
    for name in recorded.NAMES:
        calls = _trace(name)
        for before, after in pairwise(calls):
            shared = len(before.request["messages"])
            assert after.request["messages"][:shared] == before.request["messages"], f"{name}, call {after.number}"
        assert any(call.outcome == "local" for call in calls) == name.startswith("claude-code")
        for message in calls[-1].request["messages"]:
            assert set(message) <= {"role", "content", "tool_calls", "tool_call_id"}


@needs_traces
def test_recorded_pi_messages_are_accepted() -> None:
    calls = _trace("pi-a-opus45.jsonl")
    for call in [*calls[:60], *calls[60::40], calls[-1]]:
        assert pi.check(list(call.agent_messages)) == [], f"call {call.number}"


@needs_samples
def test_every_sample_request_is_accepted() -> None:
    requests = _sample_requests()
    assert {family for _, family, _ in requests} == {"anthropic", "openai", "responses"}
    for path, family, body in requests:
        assert CHECKS[family](body) == [], path


@needs_samples
@pytest.mark.parametrize("folder", ["hooks_ant", "hooks_rpc"])
def test_pi_messages_become_what_pi_sent(folder: str) -> None:
    contexts = sorted((SAMPLES / "pi" / folder).glob("*_context.in.json"))
    payloads = sorted((SAMPLES / "pi" / folder).glob("*_before_provider_request.json"))
    assert len(contexts) == len(payloads) > 4
    for context, payload in zip(contexts, payloads, strict=True):
        event = json.loads(context.read_text(encoding="utf-8"))
        sent = json.loads(payload.read_text(encoding="utf-8"))["payload"]
        made = pi.to_anthropic(event["event"]["messages"], model=event["model"])
        assert made["messages"] == _without_marks(sent["messages"]), context.name
        assert pi.check(event["event"]["messages"]) == []


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_marks(inner) for name, inner in value.items() if name != "cache_control"}
    return [_without_marks(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("family", EXAMPLES)
def test_the_hand_written_request_is_accepted(family: str) -> None:
    valid = EXAMPLES[family]()
    assert _judge(family, valid, valid) == []


# What must be rejected


@pytest.mark.parametrize("index", range(len(mutants.MUTANTS)), ids=lambda i: _name(*mutants.MUTANTS[i]))
def test_exactly_its_rule_rejects_the_mutant(index: int) -> None:
    rule, mutate, family = mutants.MUTANTS[index]
    by_hand, by_record = _mutant_verdicts(index)
    for name, found in [*by_hand, *by_record]:
        assert broken_rules(found) == {rule}, (name, found[:5])
        assert all(violation.where and violation.message for violation in found)
    valid = EXAMPLES[family]()
    mutate(valid)
    assert valid == EXAMPLES[family]()  # a mutant is a copy


def _name(rule: str, mutate: mutants.Mutate, family: str) -> str:
    return f"{rule}-{mutate.__name__}"


def test_every_rule_has_a_mutant_and_the_list_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Each rule alone rejects a mutant of its own, and accepts what was recorded:

    ANT-1 ANT-2 ANT-3 ANT-4 ANT-5 ANT-6 ANT-7 ANT-8 ANT-9 ANT-10 ANT-11 ANT-12 ANT-13 ANT-14 ANT-15 ANT-16 ANT-17
    ANT-18 ANT-19 ANT-20 ANT-21 ANT-22 ANT-23 ANT-24 ANT-25 ANT-26 ANT-27 ANT-28 ANT-29 ANT-30 ANT-33 ANT-31 ANT-32
    OAI-1 OAI-2 OAI-3 OAI-4 OAI-5 OAI-6 OAI-7 OAI-8 OAI-9 OAI-10 OAI-11 OAI-12 OAI-13 OAI-14 OAI-15 OAI-16 OAI-17
    OAI-18 OAI-19 OAI-20 OAI-21 OAI-22 PI-1 PI-2 PI-3 RESP-1 RESP-2 RESP-3 RESP-4 RESP-5 RESP-6 RESP-7 RESP-8 RESP-9
    RESP-10 RESP-11 RESP-12 RESP-13 RESP-14 RESP-15 RESP-16 RESP-17 RESP-18 RESP-19 RESP-20 RESP-21 RESP-22 RESP-23
    """
    accepted: Counter[str] = Counter()
    for family, example in EXAMPLES.items():
        accepted[family] += not _judge(family, example(), example())
    if TRACES.is_dir():
        for name in recorded.NAMES:
            accepted[_trace(name)[0].family] += sum(not found for found in _recorded_verdicts(name))
        accepted["pi"] += sum(not pi.check(list(call.agent_messages)) for call in _trace("pi-a-opus45.jsonl")[::20])
        for _, request in _recorded_sources("anthropic-against"):
            accepted["anthropic-against"] += not thinking.check_against(request, request)
    if SAMPLES.is_dir():
        for _, request in _recorded_sources("responses-against"):
            accepted["responses-against"] += not responses.check_against(request, request)
        accepted.update(family for _, family, body in _sample_requests() if not CHECKS[family](body))
    by_hand: Counter[str] = Counter()
    by_record: Counter[str] = Counter()
    for index, (rule, _, _) in enumerate(mutants.MUTANTS):
        hand, record = _mutant_verdicts(index)
        by_hand[rule] += sum(broken_rules(found) == {rule} for _, found in hand)
        by_record[rule] += sum(broken_rules(found) == {rule} for _, found in record)
    with capsys.disabled():
        print("\nrule    accepted requests  mutants rejected by it alone (hand-written + recorded)")
        for rule in RULES:
            print(f"{rule:7} {accepted[_family(rule)]:17}  {by_hand[rule]} + {by_record[rule]}")
    assert set(by_hand) <= set(RULES)
    listed = test_every_rule_has_a_mutant_and_the_list_is_printed.__doc__ or ""
    assert re.findall(r"[A-Z]+-\d+", listed) == list(RULES)
    assert not [rule for rule in RULES if not by_hand[rule]]
    if TRACES.is_dir() and SAMPLES.is_dir():
        assert not [rule for rule in RULES if not by_record[rule]]


def _family(rule: str) -> str:
    if rule in thinking.RULES:
        return "anthropic-against"
    if rule in ("RESP-22", "RESP-23"):
        return "responses-against"
    return {"ANT": "anthropic", "OAI": "openai", "PI": "pi", "RESP": "responses"}[rule.partition("-")[0]]


def test_a_prefill_is_allowed_only_where_the_model_takes_one() -> None:
    request = examples.anthropic_request()
    request["messages"].append({"role": "assistant", "content": [{"type": "text", "text": "The note says"}]})
    assert broken_rules(anthropic.check(request)) == {"ANT-6"}
    assert anthropic.check(request, prefill=True) == []
    request["messages"][-1]["content"][0]["text"] += " "
    assert broken_rules(anthropic.check(request, prefill=True)) == {"ANT-6"}
    request["messages"][-1]["content"] = []  # an empty final assistant message is no fault in itself
    assert anthropic.check(request, prefill=True) == []
    chat = examples.openai_request()
    chat["messages"].append({"role": "assistant", "content": "The note says"})
    assert broken_rules(openai.check(chat)) == {"OAI-6"}
    assert openai.check(chat, prefill=True) == []


def test_thinking_of_the_running_round_goes_whole_or_not_at_all() -> None:
    raw = examples.anthropic_running()
    bare = clone(raw)
    for message in bare["messages"][-4:]:
        message["content"] = [block for block in message["content"] if block["type"] != "thinking"]
    assert broken_rules(thinking.check_against(raw, bare)) == {"ANT-32"}
    assert thinking.check_against(raw, bare, may_clear_round=True) == []
    half = clone(raw)
    del half["messages"][-4]["content"][0]
    assert broken_rules(thinking.check_against(raw, half, may_clear_round=True)) == {"ANT-32"}


# The checker itself


@pytest.mark.parametrize("family", ["anthropic", "openai", "responses"])
def test_the_incremental_checker_agrees_with_the_whole_one(family: str) -> None:
    module: Any = {"anthropic": anthropic, "openai": openai, "responses": responses}[family]
    parts = PARTS[family]
    request = EXAMPLES[family]()
    growing = module.Incremental()
    for end in range(len(request[parts]) + 1):
        prefix = {**request, parts: request[parts][:end]}
        assert growing.request(prefix) == module.check(prefix), end
    strange = clone(request)
    strange[parts][0]["content"] = object()  # has no digest
    assert growing.request(strange) == module.check(strange) != []
    assert growing.request(request) == []
    sources = [request, *(source for _, source in _recorded_sources(family))]
    for rule, mutate, other in mutants.MUTANTS:
        if other != family:
            continue
        for source in sources[:2]:
            try:
                mutant = mutate(source)
            except mutants.NotApplicable:
                continue
            state = module.Incremental()
            for turn in (source, mutant, source):
                assert state.request(turn) == module.check(turn), (rule, mutate.__name__)


@pytest.mark.parametrize("family", ["anthropic", "openai", "pi", "responses"])
def test_no_input_makes_the_checker_raise(family: str) -> None:
    valid = EXAMPLES[family]()
    places = 0
    for path in _paths(valid, ()):
        for junk in (None, True, 7, "", " x", [], [[]], {}, {"type": "text"}, float("nan")):
            request = clone(valid)
            owner = request
            for step in path[:-1]:
                owner = owner[step]
            owner[path[-1]] = junk
            assert all(isinstance(violation, Violation) for violation in CHECKS[family](request))
            places += 1
    assert places > 500


def _paths(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in inner:
        yield (*path, step)
        yield from _paths(item, (*path, step))


def test_the_checker_imports_only_the_standard_library() -> None:
    modules = sorted((ROOT / "tests" / "checker").glob("*.py"))
    assert len(modules) > 5
    for module in modules:
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [str(node.module)]
            assert not isinstance(node, ast.ImportFrom) or node.level < 2
            assert all(name.partition(".")[0] in sys.stdlib_module_names for name in names), (module.name, names)


def test_the_specification_states_the_rules_the_checker_has() -> None:
    text = (ROOT / "specs" / "provider-rules.md").read_text(encoding="utf-8")
    stated = dict(re.findall(r"^\| ((?:ANT|OAI|PI|RESP)-\d+) \| (.+?) \|", text, flags=re.MULTILINE))
    assert stated == RULES

"""The policy: forms, lookup by model, lifetimes, and settings that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from foldlog.domain.errors import OptionError
from foldlog.domain.passes.schedule import window_of
from foldlog.domain.policy import NEVER_MS, Policy, lookup_keys, make_policy, parse_ttl, resolve
from foldlog.domain.state import State
from foldlog.domain.window import bands, family, measure

VECTORS = json.loads(
    (Path(__file__).resolve().parents[2] / "specs/vectors/thresholds.json").read_text(encoding="utf-8")
)


@pytest.mark.rule("WINDOW-5")
@pytest.mark.parametrize(("model", "keys"), VECTORS["lookup"])
def test_keys_are_tried_in_order(model: str, keys: list[str]):
    assert lookup_keys(model) == keys


@pytest.mark.rule("WINDOW-5")
def test_the_first_key_that_is_set_wins():
    keys = lookup_keys("anthropic/claude-sonnet-4-5")
    for index, wanted in enumerate(keys):
        values = {key: 20 + place for place, key in enumerate(keys) if place >= index}
        settings = resolve(make_policy({"execute_threshold_percentage": values}), "anthropic/claude-sonnet-4-5")
        assert settings.threshold == values[wanted] * 100


@pytest.mark.rule("WINDOW-5")
@pytest.mark.parametrize(
    ("name", "field", "one", "two"),
    [
        ("cache_ttl", "ttl", "1h", "90s"),
        ("protected_tokens", "protected", 7_000, 9_000),
        ("output_reserve", "reserve", 7_000, 9_000),
        ("execute_threshold_tokens", "threshold_tokens", 70_000, 90_000),
    ],
)
def test_every_setting_can_be_per_model(name: str, field: str, one: Any, two: Any):
    policy = make_policy({name: {"a/m": one, "default": two}})
    alone = make_policy({name: one})
    assert getattr(resolve(policy, "a/m"), field) == getattr(resolve(alone, "x"), field)
    assert getattr(resolve(policy, "b/n"), field) == getattr(resolve(make_policy({name: two}), "x"), field)
    assert getattr(resolve(policy, "a/m"), field) != getattr(resolve(policy, "b/n"), field)


@pytest.mark.rule("WINDOW-7")
@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("execute_threshold_percentage", 19.99),
        ("execute_threshold_percentage", 90.01),
        ("execute_threshold_percentage", float("nan")),
        ("execute_threshold_percentage", float("inf")),
        ("execute_threshold_percentage", True),
        ("execute_threshold_percentage", "much"),
        ("execute_threshold_percentage", {"default": 5}),
        ("execute_threshold_percentage", [65]),
        ("execute_threshold_tokens", 4_999),
        ("execute_threshold_tokens", 2_000_001),
        ("execute_threshold_tokens", {"a/b": 1}),
        ("execute_threshold_tokens", 5_000.5),
        ("protected_tokens", -1),
        ("output_reserve", -1),
        ("output_reserve", 10**400),
        ("cache_ttl", 300),
        ("cache_ttl", {"a/b": None}),
        ("cache_ttl", "\ud800"),
        ("compaction", "perhaps"),
        ("compacton", True),
    ],
)
def test_a_wrong_setting_is_refused_by_name(setting: str, value: Any):
    with pytest.raises(OptionError) as caught:
        make_policy({setting: value})
    assert setting in str(caught.value) or caught.value.where == "policy"


@pytest.mark.rule("WINDOW-7")
@pytest.mark.parametrize("given", [5, "65", [], b"{", b"[]", b"\xff", {5: 1}, object()])
def test_what_is_no_policy_is_refused(given: Any):
    with pytest.raises(OptionError):
        make_policy(given)


def test_a_policy_survives_its_stored_form():
    policy = Policy(execute_threshold_percentage={"a/b": 70.5, "default": 50}, cache_ttl="1h", compaction=False)
    assert make_policy(policy.canonical()) == policy
    assert make_policy(None).canonical() == b"{}"
    assert (
        make_policy({"cache_ttl": "1h", "protected_tokens": 5}).canonical()
        == make_policy({"protected_tokens": 5, "cache_ttl": "1h"}).canonical()
    )


@pytest.mark.rule("SCHED-5")
@pytest.mark.parametrize(("written", "lifetime"), VECTORS["ttl"])
def test_cache_lifetimes(written: str, lifetime: int | None):
    assert parse_ttl(written) == (NEVER_MS if lifetime is None else lifetime)


@pytest.mark.rule("SCHED-5")
def test_an_unset_lifetime_is_five_minutes():
    assert parse_ttl(None) == 300_000
    assert resolve(Policy(), "x").ttl == 300_000
    assert resolve(make_policy({"cache_ttl": {"a/b": "1h"}}), "x").ttl == 300_000


@pytest.mark.rule("WINDOW-1", "WINDOW-2", "WINDOW-3")
@pytest.mark.parametrize("row", VECTORS["windows"], ids=lambda row: f"{row['context']}-{row['output']}-{row['family']}")
def test_windows(row: dict[str, Any]):
    policy = make_policy({} if row["reserve"] is None else {"output_reserve": row["reserve"]})
    end = row.get("wall", "answer")
    window = measure(row["context"], row["output"], resolve(policy, "m"), row["family"], end)
    assert (window.soft, window.hard) == (row["soft"], row["hard"])
    assert window.known == (row["context"] > 0)


@pytest.mark.rule("WINDOW-1")
def test_a_reserve_leaves_half_the_window():
    for context in (3_000, 40_000, 200_000, 1_000_000):
        window = measure(context, 0, resolve(make_policy({"output_reserve": 2_000_000}), "m"), "other")
        assert window.soft == context // 2


@pytest.mark.rule("WINDOW-4", "WINDOW-6")
@pytest.mark.parametrize("row", VECTORS["bands"], ids=lambda row: json.dumps(row["policy"]))
def test_thresholds(row: dict[str, Any]):
    settings = resolve(make_policy(row["policy"]), row["model"])
    found = bands(settings, measure(row["context"], 0, settings, "other"))
    assert (found.execute, found.force, found.emergency) == (row["execute"], row["force"], 9_500)


@pytest.mark.rule("WINDOW-6")
def test_the_force_band_lies_between_85_and_92():
    for percent in range(20, 91):
        settings = resolve(make_policy({"execute_threshold_percentage": percent}), "m")
        found = bands(settings, measure(200_000, 0, settings, "other"))
        assert found.force == min(max(8_500, percent * 100 + 200), 9_200)
        assert found.execute < found.force < found.emergency


@pytest.mark.rule("WINDOW-2")
@pytest.mark.parametrize(
    ("codec", "model", "output", "hard"),
    [
        ("pi", "zai/glm-4.7", 131_072, 195_904), ("pi", "anthropic/claude-opus-4-7", 32_000, 195_904),
        ("pi", "google/gemini-3-pro", 64_000, 200_000), ("pi", "openai-codex/gpt-5.4", 40_000, 160_000),
        ("openai-chat", "xai/grok-4", 64_000, 195_904), ("opencode", "grok-code-fast", 64_000, 195_904),
        ("openai-chat", "gpt-5", 64_000, 168_000), ("openai-responses", "openai-codex/gpt-5.4", 40_000, 168_000),
    ],
)  # fmt: skip
def test_what_a_prompt_can_fill_by_host_and_provider(codec: str, model: str, output: int, hard: int):
    found, limit = window_of(State(codec=codec), model, 200_000, output, resolve(make_policy(None), model))
    assert (found.hard, limit) == (hard, 200_000)


def test_families():
    assert family("anthropic", "whatever") == "anthropic"
    assert family("openai-chat", "openrouter/anthropic/Claude-Opus-4-7") == "anthropic"
    assert family("openai-chat", "google/gemini-3-pro") == "google"
    assert family("openai-chat", "gpt-5") == "other"

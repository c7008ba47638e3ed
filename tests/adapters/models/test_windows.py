"""Known windows (specs/config.md)."""

from __future__ import annotations

import pytest

from foldlog.adapters.models.windows import CATALOGUE, Limits, limits, plain

BETA = "claude-code-20250219,context-1m-2025-08-07"


@pytest.mark.rule("MODEL-1")
@pytest.mark.parametrize(
    ("model", "context", "output"),
    [
        ("claude-sonnet-4-5-20250929", 200_000, 64_000),
        ("claude-sonnet-4-20250514", 200_000, 64_000),
        ("claude-opus-4-1-20250805", 200_000, 32_000),
        ("claude-opus-4-20250514", 200_000, 32_000),
        ("claude-opus-4-5", 200_000, 64_000),
        ("claude-opus-4-6", 1_000_000, 128_000),
        ("claude-haiku-4-5-20251001", 200_000, 64_000),
        ("claude-3-5-haiku-20241022", 200_000, 8_192),
        ("gpt-5.1-codex-max", 272_000, 0),
        ("gpt-5", 272_000, 0),
        ("gpt-5-chat-latest", 128_000, 16_384),
        ("gpt-4.1-mini", 1_047_576, 32_768),
        ("gpt-4o-2024-08-06", 128_000, 16_384),
        ("o3-mini", 200_000, 100_000),
        ("gemini-2.5-pro", 1_048_576, 65_536),
        ("deepseek-chat", 128_000, 8_192),
        ("gpt-4-1106-preview", 0, 0),
        ("claude-fake-1", 0, 0),
        ("", 0, 0),
    ],
)
def test_known_windows_and_unknown_ones(model, context, output):
    assert limits(model) == Limits(context=context, output=output)


@pytest.mark.rule("MODEL-2")
@pytest.mark.parametrize(
    "name",
    [
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "openrouter/anthropic/claude-sonnet-4.5", "Claude-Sonnet-4-5",
        "claude-sonnet-4-5@20250929", "anthropic/claude-sonnet-4_5",
    ],
)  # fmt: skip
def test_one_model_under_many_names(name):
    assert plain(name).startswith("claude-sonnet-4-5")
    assert limits(name).context == 200_000


@pytest.mark.rule("MODEL-3")
def test_the_wide_window_is_asked_for():
    assert limits("claude-sonnet-4-5", betas=BETA).context == 1_000_000
    assert limits("claude-sonnet-4-5[1m]").context == 1_000_000
    assert limits("claude-opus-4-1", betas=BETA).context == 200_000
    assert limits("claude-opus-4-6", betas=BETA).context == 1_000_000
    assert limits("claude-fake-1", betas=BETA).context == 0


@pytest.mark.rule("MODEL-1")
def test_the_user_s_own_win_member_by_member():
    own = {"claude-*": Limits(context=90_000), "my-*": Limits(context=5, output=6), "my-own": Limits(context=7)}
    assert limits("claude-sonnet-4-5", own) == Limits(context=90_000, output=64_000)
    assert limits("claude-sonnet-4-5", own, BETA).context == 90_000
    assert limits("x/My-Own", own) == Limits(context=7)
    assert limits("my-other", own) == Limits(context=5, output=6)
    assert limits("other", own) == Limits()


def test_every_row_can_be_reached():
    for index, row in enumerate(CATALOGUE):
        name = row.pattern.replace("[6-9]", "6").replace("[5-9]", "5").replace("[67]", "6").replace("[23]", "2")
        name = name.replace("*", "")
        found = limits(name)
        assert (found.context, found.output) == (row.context, row.output), (index, name)

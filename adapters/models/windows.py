"""How many tokens a model takes: known windows by pattern, as data. What no pattern names stays unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec
import pydantic

WIDE_BETA = "context-1m-"
"""How the beta begins that widens the window of the models which have a wider one on request."""
_MARK = "[1m]"
"""What Claude Code writes behind a model's name to ask for the wide window."""

Tokens = Annotated[int, pydantic.Field(ge=0, lt=1 << 40, strict=True)]


class Limits(pydantic.BaseModel):
    """The limits of a model in tokens, 0 = unknown.

    ``context``: prompt and answer together. Where a provider limits the prompt by itself, that limit, and ``output``
    is left unknown: nothing of it has to be kept free for the answer.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    context: Tokens = 0
    output: Tokens = 0


class Row(msgspec.Struct, frozen=True):
    """One line of the catalogue. ``wide``: the window with the provider's beta for a longer one, 0 = no such beta."""

    pattern: str
    context: int
    output: int = 0
    wide: int = 0


MILLION, MEBI = 1_000_000, 1_048_576
CATALOGUE = (
    # platform.claude.com, models overview, November 2026: from 4.6 on (haiku: 5.5) a million without a beta.
    Row("claude-opus-4-[6-9]*", MILLION, 128_000),
    Row("claude-sonnet-4-[6-9]*", MILLION, 128_000),
    Row("claude-opus-[5-9]*", MILLION, 128_000),
    Row("claude-sonnet-[5-9]*", MILLION, 128_000),
    Row("claude-fable-[5-9]*", MILLION, 128_000),
    Row("claude-haiku-[5-9]*", MILLION, 128_000),
    Row("claude-sonnet-4*", 200_000, 64_000, wide=MILLION),
    Row("claude-opus-4-5*", 200_000, 64_000),
    Row("claude-opus-4*", 200_000, 32_000),
    Row("claude-haiku-4*", 200_000, 64_000),
    Row("claude-3-7-*", 200_000, 64_000),
    Row("claude-3-5-*", 200_000, 8_192),
    Row("claude-3-*", 200_000, 4_096),
    # developers.openai.com, models: 400,000 of which a prompt may fill 272,000. From 5.4 on the API takes a longer
    # prompt at twice the price; Codex and the standard tier end at 272,000, which is what is safe to count on.
    Row("gpt-5-chat*", 128_000, 16_384),
    Row("gpt-5-3-codex-spark*", 128_000, 32_000),
    Row("gpt-5*", 272_000),
    Row("gpt-6*", 272_000),
    Row("codex-mini*", 200_000, 100_000),
    Row("gpt-4-1", 1_047_576, 32_768),
    Row("gpt-4-1-*", 1_047_576, 32_768),
    Row("gpt-4o-2024-05-13", 128_000, 4_096),
    Row("gpt-4o*", 128_000, 16_384),
    Row("gpt-4-turbo*", 128_000, 4_096),
    Row("o1-mini*", 128_000, 65_536),
    Row("o1-preview*", 128_000, 32_768),
    Row("o1*", 200_000, 100_000),
    Row("o3*", 200_000, 100_000),
    Row("o4-mini*", 200_000, 100_000),
    # ai.google.dev, models: the prompt's limit stands beside the answer's.
    Row("gemini-2-0-*", MEBI, 8_192),
    Row("gemini-2-5-computer-use*", 128_000, 64_000),
    Row("gemini-2-5-*", MEBI, 65_536),
    Row("gemini-3*", MEBI, 65_536),
    # api-docs.deepseek.com, pricing: V4; the older names pointed to V3.2 (128K) and now to V4, so the smaller is safe.
    Row("deepseek-v4*", MILLION, 384_000),
    Row("deepseek-chat", 128_000, 8_192),
    Row("deepseek-reasoner", 128_000, 65_536),
    # docs.x.ai, platform.moonshot.ai, docs.z.ai, platform.minimax.io, docs.mistral.ai: models.
    Row("grok-4-[5-9]*", 500_000),
    Row("grok-code-fast-1*", 256_000, 10_000),
    Row("kimi-k2-[5-9]*", 262_144),
    Row("kimi-k3*", MEBI),
    Row("glm-4-[67]*", 200_000, 131_072),
    Row("glm-5-[23]*", MILLION, 131_072),
    Row("minimax-m2*", 204_800, 131_072),
    Row("devstral-*", 256_000),
)  # fmt: skip
"""First match wins. Patterns are over the plain form of a name (``plain``)."""


def limits(model: str, own: Mapping[str, Limits] | None = None, betas: str = "") -> Limits:
    """Return the limits of ``model``; unknown ones are 0.

    ``own``: the user's patterns, which win member by member: an exact name before the first pattern that fits.
    ``betas``: the request's ``anthropic-beta`` header.
    """
    known = _known(model, wide=model.endswith(_MARK) or any(b.strip().startswith(WIDE_BETA) for b in betas.split(",")))
    given = _own(model, own or {})
    return Limits(context=given.context or known.context, output=given.output or known.output)


def plain(model: str) -> str:
    """Return a model's name as the catalogue has it: lower case, hyphens, no provider, region or window mark.

    ``us.anthropic.claude-sonnet-4-5-20250929-v1:0`` and ``openrouter/anthropic/claude-sonnet-4.5`` begin alike then.
    """
    name = model.lower().removesuffix(_MARK).rpartition("/")[2]
    name = re.sub(r"^(?:[a-z]{2,6}\.)?(?:anthropic|openai|deepseek|mistral)\.", "", name)
    return re.sub(r"[._@]", "-", name)


def _known(model: str, *, wide: bool) -> Limits:
    name = plain(model)
    row = next((row for row in CATALOGUE if fnmatchcase(name, row.pattern)), None)
    if row is None:
        return Limits()
    return Limits(context=row.wide if wide and row.wide else row.context, output=row.output)


def _own(model: str, own: Mapping[str, Limits]) -> Limits:
    names = (model.lower(), model.lower().removesuffix(_MARK).rpartition("/")[2], plain(model))
    lowered = {pattern.lower(): limit for pattern, limit in own.items()}
    for name in names:
        if name in lowered:
            return lowered[name]
    for pattern, limit in lowered.items():
        if any(fnmatchcase(name, pattern) for name in names):
            return limit
    return Limits()

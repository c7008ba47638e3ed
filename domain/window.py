"""The model's window and what part of it is used, in integers (``transform.md`` 1.1, 1.2, 1.6, 1.7)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from .policy import Settings

ASSUMED_WINDOW = 128_000
"""Pressure is reckoned against this where the window is not known (1.2); nothing is ever refused by it."""
LEARNT = range(1_024, 10_000_001)
EMERGENCY = 9_500
WALL_MARGIN = 4_096
DEFAULT_OUTPUT = 32_000

Family: TypeAlias = Literal["anthropic", "google", "other"]
Wall: TypeAlias = Literal["answer", "margin", "codex"]
"""What keeps a prompt from filling the context: the answer it leaves room for, a margin, Codex's own reserve (1.2)."""


class Window(msgspec.Struct, frozen=True):
    """``soft``: denominator of every scheduling percentage; ``hard``: of the 95% test. Tokens.

    ``known`` is False where the window was assumed: then it may drive execute and force, never a refusal.
    """

    soft: int
    hard: int
    known: bool


class Bands(msgspec.Struct, frozen=True):
    """Thresholds in 1/100 of a per cent of the soft window: execute, force (``max(85, execute + 2)``), emergency."""

    execute: int
    force: int
    emergency: int = EMERGENCY


def family(codec: str, model: str) -> Family:
    """Return which provider's geometry a model follows, by codec and name."""
    name = model.lower()
    if codec == "anthropic" or "claude" in name:
        return "anthropic"
    return "google" if "gemini" in name else "other"


def wall(codec: str, model: str) -> Wall:
    """Return what a model's hard window ends at: xAI and Pi cut an answer short, and need no room for a whole one."""
    name = model.lower()
    if codec == "pi":
        return "codex" if name.startswith("openai-codex/") else "margin"
    return "margin" if "grok" in name or name.startswith("xai/") else "answer"


def measure(context: int, output: int, settings: Settings, kind: Family, wall: Wall = "answer") -> Window:
    """Return both windows. ``context``, ``output`` in tokens, 0 = unknown. An output >= context is a placeholder."""
    known = context > 0
    total = context if known else ASSUMED_WINDOW
    answer = output if 0 < output < total else 0
    floor = max(1_024, total // 2)
    if settings.reserve is not None:
        soft = max(total - settings.reserve, floor)
    elif kind == "google":
        soft = total
    else:
        soft = max(total - min(answer, total // 4), floor)
    if kind == "google":
        hard = total
    elif wall == "codex":
        hard = total - answer
    elif kind == "anthropic" or wall == "margin":
        hard = total - WALL_MARGIN
    else:
        hard = total - min(answer, DEFAULT_OUTPUT)
    return Window(soft=soft, hard=max(hard, soft, 1_024), known=known)


def narrow(window: Window, prompt: int) -> Window:
    """Return ``window`` with a provider's limit of the prompt alone: nothing is reserved of that again."""
    if not window.known:
        return Window(soft=prompt, hard=prompt, known=True)
    return Window(soft=min(window.soft, prompt), hard=min(window.hard, prompt), known=True)


def bands(settings: Settings, window: Window) -> Bands:
    """Return the thresholds. Tokens win where set and the window is known, capped at 90% of it."""
    execute = settings.threshold
    if settings.threshold_tokens is not None and window.known:
        execute = min(settings.threshold_tokens, window.soft * 9 // 10) * 10_000 // window.soft
    return Bands(execute=execute, force=max(8_500, min(execute, 9_000) + 200))


def percent(tokens: int, limit: int) -> int:
    """Return ``tokens`` of ``limit`` in 1/100 of a per cent, rounded down; 0 where the limit is not positive."""
    return tokens * 10_000 // limit if limit > 0 else 0

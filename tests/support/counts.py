"""The count each pass begins with, held against one made anew."""

from __future__ import annotations

from typing import Any

import pytest

from foldlog.domain.passes import local

LONG = "I think we should actually look at the configuration file in order to find the really important message. "
PICTURE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo" + "A" * 4_000},
}
EVERYTHING = {
    "protected_tokens": 0,
    "caveman_text_compression": True,
    "caveman_min_chars": 100,
    "smart_drops": True,
    "keep_reasoning_tokens": 500,
}
"""A policy under which every lane works."""


def recounted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets, for each decision from now on, how far the carried count is off a new one."""
    off: list[int] = []
    real = local.measure

    def measure(scene: Any, given: Any, divergence: Any, arriving: int) -> int:
        found = real(scene, given, divergence, arriving)
        off.append(found - local.recount(scene, given))
        return found

    monkeypatch.setattr(local, "measure", measure)
    return off

"""The count each pass begins with, held against one made anew."""

from __future__ import annotations

from typing import Any

import pytest

from foldlog.domain.passes import local


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

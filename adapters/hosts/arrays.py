"""Long lists told as changes: stretches of the list told before, and what is new (``specs/link.md``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from .rpc import PARAMS, Problem

T = TypeVar("T")

MISSING_BASE = "MISSING_BASE"
"""The process does not hold the list a change was told against: the whole list is asked for."""


def taken(base: Sequence[T], order: Sequence[tuple[int, int] | Any], count: int, new: Any) -> list[T]:
    """Return the list that ``order`` describes over ``base``; ``new(item)`` makes an element of what is no stretch.

    A stretch is (first index, index behind the last). Raises ``Problem`` for one outside ``base``, and where the
    result has not ``count`` elements.
    """
    found: list[T] = []
    for item in order:
        if not isinstance(item, tuple):
            found.append(new(item))
            continue
        first, end = item
        if not 0 <= first <= end <= len(base):
            raise Problem(
                PARAMS, f"the stretch {first} to {end} is outside the list of {len(base)} messages told before"
            )
        found += base[first:end]
    if len(found) != count:
        raise Problem(PARAMS, f"the list was said to have {count} messages; what was told makes {len(found)}")
    return found

"""Names the rules of specs/ a test proves, where a mark would not fit (inside a state machine's rule, say)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])


def rule(*ids: str) -> Callable[[F], F]:
    """Decorate a function with the ids it proves (``@rule("PASS-12")``); read from the source by tests/house."""

    def name(function: F) -> F:
        function.__rules__ = ids  # type: ignore[attr-defined]
        return function

    return name

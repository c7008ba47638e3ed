"""What the mutants share: the registry's form, and helpers that find the place to break."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .base import clone

Request = dict[str, Any]
Mutate = Callable[[Any], Any]
Mutants = list[tuple[str, Mutate, str]]


class NotApplicable(Exception):
    """The request has no place where this rule could be broken alone."""


def mutant(found: Mutants, rule: str, family: str) -> Callable[[Mutate], Mutate]:
    """Return a decorator that turns a function which breaks a request in place into a mutant, listed in ``found``."""

    def register(change: Mutate) -> Mutate:
        def mutate(request: Any) -> Any:
            copy = clone(request)
            change(copy)
            return copy

        mutate.__name__ = change.__name__
        found.append((rule, mutate, family))
        return mutate

    return register


def first(found: Iterator[Any]) -> Any:
    """Return the first of ``found``, or say that there is no such place."""
    for item in found:
        return item
    raise NotApplicable


def tool(name: str) -> dict[str, Any]:
    """Return an Anthropic tool."""
    return {"name": name, "input_schema": {"type": "object"}}


def add_tools(request: Request, *tools: Any) -> None:
    """Add ``tools`` behind those the request has."""
    request["tools"] = [*(request.get("tools") or []), *tools]

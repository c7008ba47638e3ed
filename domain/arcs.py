"""Tool arcs: a call and the result that answers it, told apart by id and turn (T8)."""

from __future__ import annotations

from typing import Any

from . import items
from .state import PARTS_LIMIT, State, key
from .transcript import Call


def call_part(state: State, m: int, p: int) -> Call | None:
    """Return the call that the result at (m, p) answers, None where it is not known."""
    owner = state.call_of.get(key(m, p), 0)
    if not owner:
        return None
    parts = state.node(owner // PARTS_LIMIT).message.parts
    part = parts[owner % PARTS_LIMIT] if owner % PARTS_LIMIT < len(parts) else None
    return part if isinstance(part, Call) else None


def arc(state: State, m: int, part: Any) -> str:
    """Name the tool arc a call or result part of message ``m`` belongs to: its call's message and id."""
    if isinstance(part, Call) or state.node(m).message.role == "assistant":  # opencode: both stand in one message
        return f"{m}:{part.id}"
    above = state.node(m).parent
    if state.codec == items.CODEC:
        return f"{maker(state, above, part.id)}:{part.id}"
    while above and state.node(above).message.role != "assistant":
        above = state.node(above).parent  # other results of the same turn
    return f"{above}:{part.id}"


def is_reduce(name: str) -> bool:
    """Whether a tool name is ``ctx_reduce``, bare or behind a host's prefix (``mcp__foldlog__``, ``_``)."""
    return name == "ctx_reduce" or name.endswith("_ctx_reduce")


def maker(state: State, above: int, call: str) -> int:
    """Return the item that is the call, among several of one answer or further up; 0 where there is none."""
    while above and not items.holds(state.node(above).message, call):
        above = state.node(above).parent
    return above

"""To-do lists an agent keeps with a tool: what a call of it says, and the arc of ours that says it again.

``transform.md`` 6.5. Only tools that hand over the whole list with each call are known here: of one that tells single
steps (Claude Code's ``TaskCreate``, OMP's ``_todo``) no one call says how the list stands.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from .names import LISTS, plain

MEMBERS = ("todos", "plan")
"""Where such a call holds the list; what a step says stands in ``SAID``."""
SAID = ("content", "step", "title", "description")
STATUSES = ("pending", "in_progress", "completed", "cancelled")
OVER = frozenset(("completed", "cancelled"))
PRIORITY = "medium"
PREFIX = "foldlog_todo_"
"""How the ids of our own arcs begin; behind it 16 hex digits. Every provider takes such an id."""
EXACT = 2**53
"""Whole numbers below this are the same in every program that may write the arc again."""


class Arc(msgspec.Struct, frozen=True):
    """A call and its result as they are sent: the id of both, and the chunk that ``Insert`` names."""

    id: str
    data: bytes

    @property
    def digest(self) -> bytes:
        """The chunk's name."""
        return sha256(self.data).digest()


def keeps_list(name: str) -> bool:
    """Whether a tool of this name hands over a whole to-do list."""
    return plain(name) in LISTS


def is_ours(id: str) -> bool:
    """Whether a call or a unit of this id is an arc of ours."""
    return id.startswith(PREFIX)


def arc(name: str, arguments: str) -> Arc | None:
    """Return the arc that says again what a call said; None where there is nothing left to do, or it cannot be read.

    ``arguments``: the call's, as JSON. The same list has the same id, whatever else the call said.
    """
    try:
        given = msgspec.json.decode(arguments)
        steps = _steps(given)
        if not steps or all(step["status"] in OVER for step in steps) or not _exact(given):
            return None
        state = msgspec.json.encode(steps, order="sorted")
        output = msgspec.json.format(msgspec.json.encode(steps), indent=2).decode()
        id = PREFIX + sha256(state).hexdigest()[:16]
        unit = {"id": id, "name": name, "input": given, "output": output}
        return Arc(id, msgspec.json.encode(unit, order="sorted"))
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None  # half a surrogate pair, a number no machine holds: what cannot be said exactly is not said


def done(arguments: str) -> bool:
    """Whether a call says that all of its list is done; of an empty list, or one nobody can read, it is not known."""
    try:
        steps = _steps(msgspec.json.decode(arguments))
    except (msgspec.MsgspecError, RecursionError):
        return False
    return bool(steps) and all(step["status"] in OVER for step in steps)


def _steps(given: Any) -> list[dict[str, str]]:
    """Return the list in one form; empty where any of it is not understood: it is never guessed."""
    if not isinstance(given, dict):
        return []
    listed = next((given[name] for name in MEMBERS if name in given), None)
    found: list[dict[str, str]] = []
    for step in listed if isinstance(listed, list) else ():
        said = next((step[name] for name in SAID if name in step), None) if isinstance(step, dict) else None
        if not isinstance(said, str) or not said.strip() or step.get("status") not in STATUSES:
            return []
        priority = step.get("priority")
        known = isinstance(priority, str) and priority.strip()
        found.append({"content": said, "status": step["status"], "priority": priority if known else PRIORITY})
    return found


def _exact(value: Any) -> bool:
    """Whether every program writes a value in the same way: no fractions, no whole number beyond what all can hold."""
    if isinstance(value, dict):
        return all(map(_exact, value.values()))
    if isinstance(value, list):
        return all(map(_exact, value))
    return not isinstance(value, float) and (not isinstance(value, int) or abs(value) < EXACT)

"""OpenCode's messages: ``{"info", "parts"}``, where one tool part is a call and its result (``hosts.md`` 1.4, 1.5).

What a part is follows from what the host makes of it for a provider: only that is its identity.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ....domain.errors import MessageError
from .unit import Kind, Layout, Unit, check_name, unknown_role

CLEARED = "[Old tool result content cleared]"
"""What the host sends instead of an output it cleared itself (``state.time.compacted``)."""
INTERRUPTED = "[Tool execution was interrupted]"
"""What the host sends as the result of a call that is not finished."""
UNSENT = frozenset({"step-finish", "snapshot", "patch", "agent", "retry"})
"""Types the host never sends: they are no parts."""
DONE = ("completed", "error")
"""The states of a call that has its result; all others are open, and are never touched."""
_FIXED = frozenset({"step-start", "compaction", "subtask"})
"""Types that reach the model as a splitter or as a fixed sentence, whatever they hold."""
_KINDS: dict[str, Kind] = {"text": "text", "reasoning": "thinking", "file": "media"}
_LOCAL = frozenset({"id", "sessionID", "messageID", "time"})
_UNSENT_FILES = ("text/plain", "application/x-directory")


class Output(msgspec.Struct, frozen=True):
    """What a finished call sends back. ``key``: the member of ``state`` it stands in (empty: the host's own words)."""

    text: str
    key: str
    attachments: tuple[dict[str, Any], ...] = ()
    failed: bool = False


def layout(message: dict[str, Any], where: str) -> Layout:
    """Return the layout of a decoded message.

    An answer that failed has no parts, as the host leaves it out. A tool part that is not finished is a call and what
    the host says in place of a result, so that later parts keep their numbers when it ends.
    Raises ``MessageError`` for an unknown role, parts that are no list, a part without a type, a tool part without call
    id, name or state.
    """
    info, parts = message.get("info"), message.get("parts")
    said = info.get("role") if isinstance(info, dict) else None
    if said not in ("user", "assistant"):
        raise unknown_role(said, "user and assistant", f"{where}.info.role")
    if not isinstance(parts, list):
        raise MessageError("the parts of a message must be a list", value=parts, where=f"{where}.parts")
    units: list[Unit] = []
    for i, part in enumerate(parts):
        units += [Unit(kind, part, "item", i) for kind in _kinds(part, said, f"{where}.parts[{i}]")]
    if said == "assistant":
        units = [] if _left_out(message["info"], parts) else units
        return Layout("assistant", said, units)
    return Layout("user", said, units)


def _kinds(part: Any, said: str, where: str) -> tuple[Kind, ...]:
    if not isinstance(part, dict):
        raise MessageError("a part must be a JSON object", value=part, where=where)
    given = part.get("type")
    if not isinstance(given, str):
        raise MessageError("a part must have a type", value=given, where=f"{where}.type")
    if given == "tool":
        return _tool(part, where)
    if given in UNSENT:
        return ()
    if given in ("text", "reasoning"):
        text = part.get("text")
        if not isinstance(text, str):
            raise MessageError("a text part must hold text", value=text, where=f"{where}.text")
        if given == "text" and (part.get("ignored") is True or (said == "user" and not text)):
            return ()
    if given == "file" and part.get("mime") in _UNSENT_FILES:
        return ()
    return (_KINDS.get(given, "other"),)


def _tool(part: dict[str, Any], where: str) -> tuple[Kind, ...]:
    check_name(part.get("callID"), "the id of a tool call", f"{where}.callID")
    check_name(part.get("tool"), "the name of a called tool", f"{where}.tool")
    state = part.get("state")
    if not isinstance(state, dict):
        raise MessageError("a tool part must have a state", value=state, where=f"{where}.state")
    for key in ("output", "error"):
        if not isinstance(state.get(key, ""), str):
            raise MessageError("what a tool said must be text", value=state[key], where=f"{where}.state.{key}")
    if _sub(part, "metadata").get("providerExecuted"):
        return ("other",)  # call and result are the provider's own blocks
    return ("call", "result") if state.get("status") in DONE else ("call", "other")


def _left_out(info: dict[str, Any], parts: list[dict[str, Any]]) -> bool:
    """Whether the host leaves an answer out because it failed; an aborted one with something in it is sent."""
    error = info.get("error")
    if not error:
        return False
    aborted = isinstance(error, dict) and error.get("name") == "MessageAbortedError"
    return not (aborted and any(part["type"] not in ("step-start", "reasoning") for part in parts))


def _sub(holder: dict[str, Any], key: str) -> dict[str, Any]:
    found = holder.get(key)
    return found if isinstance(found, dict) else {}


def output_of(part: dict[str, Any]) -> Output:
    """Return what the host sends as the result of a finished tool part."""
    state = part["state"]
    if state.get("status") == "error":
        metadata = _sub(state, "metadata")
        if metadata.get("interrupted") is True and isinstance(metadata.get("output"), str):
            return Output(metadata["output"], "metadata")
        return Output(state.get("error", ""), "error", (), True)
    if _sub(state, "time").get("compacted"):
        return Output(CLEARED, "")
    given = state.get("attachments")
    found = tuple(one for one in given if isinstance(one, dict)) if isinstance(given, list) else ()
    return Output(state.get("output", ""), "output", found)


def identity_value(unit: Unit) -> Any:
    """Return the value whose canonical JSON identifies the unit: what the host sends of it, without ids and times."""
    part = unit.value
    kind = part["type"]
    if unit.kind == "call":
        return _call(part)
    if unit.kind == "result":
        return _result(part)
    if unit.kind == "media":
        return _file(part)
    if kind == "tool" and _sub(part, "metadata").get("providerExecuted"):
        done = part["state"].get("status") in DONE
        return {"call": _call(part), "result": _result(part) if done else None, "type": kind}
    if kind == "tool":
        return {"callID": part["callID"], "output": INTERRUPTED, "type": "open"}
    if kind in _FIXED:
        return {"type": kind}
    if unit.kind in ("text", "thinking"):
        return _signed({"text": part["text"], "type": kind}, part)
    return {key: value for key, value in part.items() if key not in _LOCAL}


def _call(part: dict[str, Any]) -> dict[str, Any]:
    value = {"callID": part["callID"], "input": part["state"].get("input"), "tool": part["tool"], "type": "call"}
    return _signed(value, part)


def _result(part: dict[str, Any]) -> dict[str, Any]:
    out = output_of(part)
    value = {"callID": part["callID"], "failed": out.failed, "output": out.text, "type": "result"}
    return {**value, "attachments": [_file(one) for one in out.attachments]} if out.attachments else value


def _signed(value: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Return ``value`` with what a provider wants back with it: signatures, its own ids."""
    return {**value, "metadata": part["metadata"]} if part.get("metadata") else value


def _file(part: dict[str, Any]) -> dict[str, Any]:
    return {"type": "file", **{str(key): part[key] for key in ("filename", "mime", "url") if key in part}}

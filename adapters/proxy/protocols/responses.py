"""OpenAI Responses: ``/v1/responses``, of Codex and others, with a key or with a ChatGPT login."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ....domain.errors import OptionError
from ..body import Body, rewrite
from . import helpers
from .base import (
    PARENT_HEADERS,
    SESSION_HEADERS,
    Caller,
    Kind,
    Protocol,
    Usage,
    harness,
    named,
    region,
    retention,
    small,
    unique,
)
from .chat import refusal
from .events import count, decoded, listed, table, text
from .meters import Told

if TYPE_CHECKING:
    from ..outgoing import Outgoing

PREVIOUS = "previous_response_id"
_THREAD = "thread-id"
"""Codex names the thread here; its ``session-id`` is that of the root thread, for subagents too."""
_PARENTS = ("x-codex-parent-thread-id", *PARENT_HEADERS)
_SUBAGENT = "x-openai-subagent"
_METADATA = "x-codex-turn-metadata"
_REQUESTS: dict[str, tuple[Kind, str]] = {
    "compaction": ("compaction", "Codex compacts"),
    "prewarm": ("helper", "Codex warms the cache"),
}
"""What Codex says a request is for; any other kind is a turn."""
_COMPACTION = "You are performing a CONTEXT CHECKPOINT COMPACTION."
"""How the prompt of Codex's own compaction begins, where its metadata do not say it."""
_TRIGGER = b'"compaction_trigger"'
_DELTAS = tuple(
    b'{"type":"response.' + name + b'.delta"'
    for name in (
        b"output_text", b"function_call_arguments", b"custom_tool_call_input", b"reasoning_summary_text",
        b"reasoning_text",
    )
)  # fmt: skip
_ENDS = ("response.completed", "response.incomplete", "response.failed")


def who(headers: Mapping[str, str], body: Body) -> Caller:
    """Say who sends this: Codex by its headers, others as Chat Completions clients; helpers by how they are built.

    Codex's subagents and reviews are threads of their own, each with an id; compactions are told by it, by their words,
    or by the item that asks for one. Raises ``OptionError`` where the conversation is kept by the provider alone.
    """
    client = harness(headers)
    told = table(decoded(headers.get(_METADATA, "").encode("utf-8", "replace")))
    said = [small(body, name) for name in ("prompt_cache_key", "user") if name in body.members]
    session = named(headers, (_THREAD,)) or unique(told.get("thread_id")) or named(headers, SESSION_HEADERS)
    session = session or next((one for one in map(unique, said) if one), None)
    scope = " ".join(one for one in said if isinstance(one, str) and one)
    kind, why = _kind(headers, body, told)
    if kind:
        return Caller(kind, client, session, None, why, scope)
    if small(body, "conversation") is not None:
        raise OptionError(
            "the provider keeps this conversation and only new items are sent, so there is nothing here to keep small; "
            "send the whole input without `conversation`, or go to the provider directly",
            value=small(body, "conversation"),
            where="conversation",
        )
    agent = headers.get(_SUBAGENT, "").strip()
    if agent:
        return Caller("subagent", client, session, None, f"Codex names the subagent: {agent[:40]}", scope)
    if named(headers, _PARENTS) or told.get("thread_source") == "subagent":
        return Caller("subagent", client, session, None, "the client names a parent thread", scope)
    return Caller("main", client, session, None, "", scope)


def _kind(headers: Mapping[str, str], body: Body, told: dict[str, Any]) -> tuple[Kind, str] | tuple[None, str]:
    if headers.get(_SUBAGENT) == "compact":
        return _REQUESTS["compaction"]
    asked = told.get("request_kind")
    if isinstance(asked, str) and asked in _REQUESTS:
        return _REQUESTS[asked]
    if "generate" in body.members and small(body, "generate") is False:
        return "helper", "a probe: it asks for no answer"
    last = body.messages[-1] if body.messages else b""
    if _TRIGGER in last[:200] and table(decoded(last)).get("type") == "compaction_trigger":
        return "compaction", "the client asks for a compaction"
    if harness(headers) == "codex" and _COMPACTION.encode() in last and helpers.last_text(last).startswith(_COMPACTION):
        return _REQUESTS["compaction"]
    above = region(body, "instructions")
    if not above and body.messages and b'"user"' not in body.messages[0][:60]:
        above = body.messages[0]
    return helpers.told(headers, body, above, "max_output_tokens")


class Reading(Told):
    """A meter of the Responses API (``base.Meter``)."""

    def __init__(self) -> None:
        super().__init__(_DELTAS)
        self._items: dict[int, bytes] = {}
        self._kept = True

    def result(self) -> Usage:
        """Return what was told so far."""
        told = super().result()
        items = tuple(self._items[place] for place in sorted(self._items)) if self._kept else ()
        return msgspec.structs.replace(told, items=items)

    def _whole(self, value: Any, raw: bytes) -> None:
        said = table(value)
        if said.get("error"):
            self._said["error"] = raw
        self._response(said)
        if said.get("status") in ("completed", "incomplete"):
            self._said["complete"] = True

    def _event(self, value: Any, raw: bytes) -> None:
        said = table(value)
        kind = text(said.get("type"))
        if kind in ("response.output_item.done", "response.output_item.added"):
            self._item(said.get("output_index"), table(said.get("item")), done=kind.endswith("done"))
        elif kind == "error" or (kind == "response.failed" and table(said.get("response")).get("error")):
            self._said["error"] = raw
        if isinstance(said.get("response"), dict):
            self._response(said["response"])
            if kind in _ENDS:
                self._said["complete"] = kind != "response.failed"

    def _response(self, response: dict[str, Any]) -> None:
        for ours, theirs in (("response_id", "id"), ("model", "model")):
            if text(response.get(theirs)):
                self._said[ours] = response[theirs]
        if response.get("store") is False:
            self._kept = False  # nothing can be asked to go on behind it
        status = text(response.get("status"))
        if status not in ("", "in_progress", "queued"):
            self._said["stop"] = text(table(response.get("incomplete_details")).get("reason")) or status
        for place, item in enumerate(listed(response.get("output"))):
            self._item(place, table(item), done=True)
        if isinstance(response.get("usage"), dict):
            self._counts(response["usage"])

    def _item(self, place: Any, item: dict[str, Any], *, done: bool) -> None:
        call, name = text(item.get("call_id")), text(item.get("name"))
        if call and not text(item.get("type")).endswith("_output"):
            self._calls[call] = name or text(item.get("type")).removesuffix("_call")
        if done and item and isinstance(place, int):
            self._items[place] = msgspec.json.encode(item)

    def _counts(self, usage: dict[str, Any]) -> None:
        prompt = count(usage.get("input_tokens"))
        details = table(usage.get("input_tokens_details"))
        read, written = count(details.get("cached_tokens")), count(details.get("cache_write_tokens"))
        if prompt is not None:
            self._usage["input"] = max(prompt - (read or 0) - (written or 0), 0)
        self._usage["cache_read"], self._usage["cache_write"] = read, written
        self._usage["output"] = count(usage.get("output_tokens"))


def assemble(body: Body, out: Outgoing) -> bytes:
    """Return the request to send: the client's own members around our items, instructions, tools. There are no marks.

    It holds the whole input, so it goes on behind no earlier response.
    """
    changes: dict[str, list[bytes | memoryview] | None] = {"input": [b"[", *out.pieces(), b"]"], PREVIOUS: None}
    if out.system:
        changes["instructions"] = [out.system]
    if out.tools:
        changes["tools"] = [out.tools]
    return rewrite(body, changes)


def previous(body: Body) -> str:
    """Return the id of the response whose items the input goes on behind, empty for a whole input."""
    return text(small(body, PREVIOUS)) if PREVIOUS in body.members else ""


def system_of(body: Body) -> bytes:
    """Return the instructions raw, ``b""`` for none. Leading developer items are among the messages."""
    return region(body, "instructions")


def tools_of(body: Body) -> bytes:
    """Return the tool list raw, ``b""`` for none."""
    return region(body, "tools")


RESPONSES = Protocol(
    name="openai-responses",
    codec="openai-responses",
    upstream="openai",
    member="input",
    who=who,
    meter=Reading,
    refusal=refusal,
    assemble=assemble,
    system_of=system_of,
    tools_of=tools_of,
    lifetime=retention,
    previous=previous,
)


def compacting(headers: Mapping[str, str], body: Body) -> Caller:
    """Say of a request for a compaction who sends it."""
    return msgspec.structs.replace(
        who(headers, body), kind="compaction", agent=None, why="the client asks for a compaction"
    )


COMPACTING = msgspec.structs.replace(RESPONSES, who=compacting)

"""Anthropic Messages: ``/v1/messages``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from .. import marks
from ..body import Body, rewrite
from ..prefixes import turn
from ..regions import billing
from . import helpers
from .base import (
    AGENT_HEADERS,
    PARENT_HEADERS,
    SESSION_HEADERS,
    Caller,
    Protocol,
    Refusal,
    harness,
    named,
    region,
    small,
    unique,
)
from .events import count, decoded, listed, table, text
from .meters import Told

if TYPE_CHECKING:
    from ..outgoing import Outgoing

_OLD_USER = re.compile(r".*_session_([0-9a-fA-F-]{36})")
"""``metadata.user_id`` of older Claude Code: ``user_…_account_…_session_…``; a newer one is JSON."""
_SUBAGENT = b"cc_is_subagent="
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "overloaded_error",
    529: "overloaded_error",
}


def who(headers: Mapping[str, str], body: Body) -> Caller:
    """Say who sends this, from headers, ``metadata.user_id`` and the system text; helpers by how they are built."""
    client = harness(headers)
    told, scope = _user(body)
    session = named(headers, SESSION_HEADERS) or told
    agent = named(headers, AGENT_HEADERS)
    kind, why = helpers.told(headers, body, region(body, "system"), "max_tokens")
    if kind:
        return Caller(kind, client, session, agent, why, scope)
    if agent:
        return Caller("subagent", client, session, agent, "the client names the agent", scope)
    if named(headers, PARENT_HEADERS):
        return Caller("subagent", client, session, None, "the client names a parent session", scope)
    if helpers.CLASSES.get(headers.get(helpers.CLASS_HEADER, "")) == "subagent":
        return Caller("subagent", client, session, _unnamed(body), "the client calls it a subagent", scope)
    if any(_SUBAGENT in block for block in billing(body)):
        return Caller("subagent", client, session, _unnamed(body), "the billing header names a subagent", scope)
    return Caller("main", client, session, None, "", scope)


def _unnamed(body: Body) -> str:
    """Return a name for a subagent that has none and shares its session's: its task, which does not change."""
    task = turn("anthropic", body.messages[0], 0).ident.hex() if body.messages else ""
    return f"task-{task[:12]}"


def _user(body: Body) -> tuple[str | None, str]:
    """Return the session id that ``metadata.user_id`` holds, and else the whole of it as a scope."""
    if "metadata" not in body.members:
        return None, ""
    said = table(small(body, "metadata")).get("user_id")
    if not isinstance(said, str):
        return None, ""
    inner = table(decoded(said.encode("utf-8", "replace"))) if said.startswith("{") else {}
    session = inner.get("session_id")
    if isinstance(session, str) and session:
        return session, ""
    old = _OLD_USER.fullmatch(said)
    return (old.group(1), "") if old else (unique(said), said)


class Reading(Told):
    """A meter of the Messages API (``base.Meter``)."""

    def __init__(self) -> None:
        super().__init__((b'{"type":"content_block_delta"', b'{"type":"ping"'))

    def _whole(self, value: Any, raw: bytes) -> None:
        if table(value).get("type") == "error" or "error" in table(value):
            self._said["error"] = raw
            return
        self._message(table(value))
        self._said["complete"] = text(table(value).get("stop_reason")) != ""

    def _event(self, value: Any, raw: bytes) -> None:
        said = table(value)
        kind = said.get("type")
        if kind == "message_start":
            self._message(table(said.get("message")))
        elif kind == "content_block_start":
            self._block(table(said.get("content_block")))
        elif kind == "message_delta":
            self._counts(table(said.get("usage")))
            self._stopped(table(said.get("delta")))
        elif kind == "message_stop":
            self._said["complete"] = True
        elif kind == "error":
            self._said["error"] = raw

    def _message(self, message: dict[str, Any]) -> None:
        self._said["response_id"] = text(message.get("id"))
        self._said["model"] = text(message.get("model"))
        self._counts(table(message.get("usage")))
        self._stopped(message)
        for block in listed(message.get("content")):
            self._block(table(block))

    def _stopped(self, said: dict[str, Any]) -> None:
        if text(said.get("stop_reason")):
            self._said["stop"] = said["stop_reason"]

    def _block(self, block: dict[str, Any]) -> None:
        if block.get("type") == "tool_use" and text(block.get("id")):
            self._calls[block["id"]] = text(block.get("name"))

    def _counts(self, usage: dict[str, Any]) -> None:
        for ours, theirs in (
            ("input", "input_tokens"),
            ("cache_read", "cache_read_input_tokens"),
            ("cache_write", "cache_creation_input_tokens"),
            ("output", "output_tokens"),
        ):
            value = count(usage.get(theirs))
            if value is not None:  # later events repeat the counts, with what has come to them
                self._usage[ours] = value


def refusal(code: str, message: str, status: int) -> Refusal:
    """Return an error of the Messages API. ``code`` goes into the words and a header: the API's types are few."""
    kind = _KINDS.get(status, "invalid_request_error" if status < 500 else "api_error")
    body = {"type": "error", "error": {"type": kind, "message": f"foldlog: {message} [{code}]"}}
    return status, helpers.error_headers(code, status), msgspec.json.encode(body)


def assemble(body: Body, out: Outgoing) -> bytes:
    """Return the request to send: the client's own members around our messages, system, tools, and four marks."""
    places = marks.place(body, out)
    system = marks.system(out, billing(body), places.system)
    return rewrite(
        body,
        {
            "messages": [b"[", *marks.messages(out, places), b"]"],
            "system": [system] if system else None,
            "tools": [out.tools] if out.tools else None,
            "cache_control": None,  # the API's automatic mark: ours are the marks
        },
    )


def system_of(body: Body) -> bytes:
    """Return the system member raw, ``b""`` for none."""
    return region(body, "system")


def tools_of(body: Body) -> bytes:
    """Return the tool list raw, ``b""`` for none."""
    return region(body, "tools")


def lifetime(body: Body, out: Outgoing) -> str:
    """Return how long an entry at the tail lives: what the client asks for, else the provider's five minutes."""
    return marks.lifetimes(body, out)[1] or "5m"


ANTHROPIC = Protocol(
    name="anthropic",
    codec="anthropic",
    upstream="anthropic",
    member="messages",
    who=who,
    meter=Reading,
    refusal=refusal,
    assemble=assemble,
    system_of=system_of,
    tools_of=tools_of,
    lifetime=lifetime,
)


def counting(headers: Mapping[str, str], body: Body) -> Caller:
    """Say of a request for a token count who sends it."""
    return msgspec.structs.replace(who(headers, body), kind="count", why="tokens are counted")


COUNTING = msgspec.structs.replace(ANTHROPIC, who=counting)

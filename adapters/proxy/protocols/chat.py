"""OpenAI Chat Completions: ``/v1/chat/completions``, and the many servers that speak it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ..body import Body, rewrite
from ..regions import leading
from . import helpers
from .base import (
    PARENT_HEADERS,
    SESSION_HEADERS,
    Caller,
    Protocol,
    Refusal,
    harness,
    named,
    region,
    retention,
    small,
    unique,
)
from .events import count, listed, table, text
from .meters import Told

if TYPE_CHECKING:
    from ..outgoing import Outgoing

CODEC = "openai-chat"
_KINDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


def who(headers: Mapping[str, str], body: Body) -> Caller:
    """Say who sends this, from headers, the prompt cache key and ``user``; helpers by how they are built.

    A key or user that is no id made for one session may be shared by many; it only narrows where to look.
    """
    client = harness(headers)
    said = [small(body, name) for name in ("prompt_cache_key", "user") if name in body.members]
    session = named(headers, SESSION_HEADERS) or next((one for one in map(unique, said) if one), None)
    scope = " ".join(one for one in said if isinstance(one, str) and one)
    above = body.messages[0] if leading(CODEC, body) else b""
    output = "max_completion_tokens" if "max_completion_tokens" in body.members else "max_tokens"
    kind, why = helpers.told(headers, body, above, output)
    if kind:
        return Caller(kind, client, session, None, why, scope)
    if named(headers, PARENT_HEADERS):
        return Caller("subagent", client, session, None, "the client names a parent session", scope)
    return Caller("main", client, session, None, "", scope)


class Reading(Told):
    """A meter of Chat Completions (``base.Meter``). Streams tell usage only where the client asked for it."""

    def _whole(self, value: Any, raw: bytes) -> None:
        self._value(value, raw)

    def _event(self, value: Any, raw: bytes) -> None:
        if value == "":
            self._said["complete"] = True
        else:
            self._value(value, raw)

    def _value(self, value: Any, raw: bytes) -> None:
        said = table(value)
        if said.get("error"):
            self._said["error"] = raw
            return
        for ours, theirs in (("response_id", "id"), ("model", "model")):
            if text(said.get(theirs)):
                self._said[ours] = said[theirs]
        for choice in listed(said.get("choices")):
            one = table(choice)
            if text(one.get("finish_reason")):
                self._said["stop"] = one["finish_reason"]
                self._said["complete"] = True
            for call in listed((table(one.get("delta")) or table(one.get("message"))).get("tool_calls")):
                if text(table(call).get("id")):
                    spoken = table(call.get("function")) or table(call.get("custom"))
                    self._calls[call["id"]] = text(spoken.get("name"))
        if isinstance(said.get("usage"), dict):
            self._counts(said["usage"])

    def _counts(self, usage: dict[str, Any]) -> None:
        prompt = count(usage.get("prompt_tokens"))
        details = table(usage.get("prompt_tokens_details"))
        read = count(details.get("cached_tokens"))
        if read is None:
            read = count(usage.get("prompt_cache_hit_tokens"))  # DeepSeek
        written = count(details.get("cache_write_tokens"))
        if prompt is not None:
            self._usage["input"] = max(prompt - (read or 0) - (written or 0), 0)
        self._usage["cache_read"], self._usage["cache_write"] = read, written
        self._usage["output"] = count(usage.get("completion_tokens"))


def refusal(code: str, message: str, status: int) -> Refusal:
    """Return an error in OpenAI's shape."""
    kind = _KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
    body = {"error": {"message": f"foldlog: {message} [{code}]", "type": kind, "param": None, "code": code}}
    return status, helpers.error_headers(code, status), msgspec.json.encode(body)


def assemble(body: Body, out: Outgoing) -> bytes:
    """Return the request to send: the client's own members around our messages and tools. There are no marks here."""
    return rewrite(
        body,
        {"messages": [b"[", *out.pieces(), b"]"], "tools": [out.tools] if out.tools else None},
    )


def system_of(body: Body) -> None:
    """Return nothing: the leading system messages are among the messages."""
    return


def tools_of(body: Body) -> bytes:
    """Return the tool list raw, ``b""`` for none."""
    return region(body, "tools")


CHAT = Protocol(
    name="openai-chat",
    codec=CODEC,
    upstream="openai",
    member="messages",
    who=who,
    meter=Reading,
    refusal=refusal,
    assemble=assemble,
    system_of=system_of,
    tools_of=tools_of,
    lifetime=retention,
)

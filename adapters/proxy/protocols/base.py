"""What the proxy has to know of a provider's protocol, as one frozen table of functions for each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from typing import Protocol as Port

import msgspec

from ....domain.errors import MessageError
from ..body import Body

if TYPE_CHECKING:
    from ..outgoing import Outgoing

Kind: TypeAlias = Literal["main", "subagent", "helper", "compaction", "count"]


class Caller(msgspec.Struct, frozen=True):
    """Who sends a request, as far as the request itself tells.

    ``kind``: ``main`` and ``subagent`` are managed sessions; ``helper`` (titles, topics, probes), ``compaction`` (the
    client summarises its own history) and ``count`` (tokens are counted) go through untouched and touch no session.
    ``harness``: the client by its own name. ``session``: its id of the session (None: it names none, and the messages
    themselves must tell). ``agent``: the subagent's id. ``scope``: what else tells unnamed sessions apart. ``why``: the
    sign by which the kind was told, for people.
    """

    kind: Kind
    harness: str
    session: str | None = None
    agent: str | None = None
    why: str = ""
    scope: str = ""

    @property
    def managed(self) -> bool:
        """Whether the request belongs to a session of ours."""
        return self.kind in ("main", "subagent")


class Usage(msgspec.Struct, frozen=True):
    """What an answer told. Tokens; None: not said. ``input`` is what was neither read from nor written to the cache.

    ``calls``: (tool-use id, tool name) of each tool the model calls. ``stop``: the provider's own word. ``complete``:
    the answer came to its end. ``error``: the provider's error as raw JSON (``b""``: none), whether it is the whole
    answer or an event inside a stream. ``items``: what the model put out, as raw items, where the provider may be asked
    to go on behind this answer without being sent it again.
    """

    input: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    response_id: str = ""
    model: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    stop: str = ""
    complete: bool = False
    error: bytes = b""
    items: tuple[bytes, ...] = ()


class Meter(Port):
    """Reads an answer as it goes by: server-sent events or one JSON text, told apart by itself, in pieces of any size.

    The bytes must be free of a content encoding. It never raises and keeps no more than one event (or the JSON text).
    """

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        ...

    def result(self) -> Usage:
        """Return what was told so far."""
        ...


Refusal: TypeAlias = tuple[int, dict[str, str], bytes]
"""Status, headers, body."""


class Protocol(msgspec.Struct, frozen=True):
    """One provider protocol.

    ``name``; ``codec``: of the session (``Engine.session``); ``upstream``: key of the configured upstreams; ``member``:
    the body's array of messages (``body.take``).
    ``who(headers, body)``: the caller. Headers must be found by their lower-case names.
    ``meter()``: a reader for one answer.
    ``refusal(code, message, status)``: an answer in the provider's own error shape.
    ``assemble(body, out)``: the request to send: the client's members byte for byte, with messages, system and
    tools from ``out`` and the best cache marks.
    ``system_of(body)``, ``tools_of(body)``: raw JSON for ``Session.prepare``, ``b""`` for none (None: the system
    text is among the messages).
    ``previous(body)``: the answer behind which the client's messages go on, as the provider named it; empty: they are
    all there are.
    """

    name: str
    codec: str
    upstream: str
    member: str
    who: Callable[[Mapping[str, str], Body], Caller]
    meter: Callable[[], Meter]
    refusal: Callable[[str, str, int], Refusal]
    assemble: Callable[[Body, Outgoing], bytes]
    system_of: Callable[[Body], bytes | None]
    tools_of: Callable[[Body], bytes]
    lifetime: Callable[[Body, Outgoing], str]
    previous: Callable[[Body], str] = lambda _: ""


SESSION_HEADERS = (
    "x-claude-code-session-id",
    "x-session-id",
    "x-session-affinity",
    "thread-id",
    "session-id",
    "session_id",
    "x-conversation-id",
)
"""Headers by which clients name a session, in the order they are believed."""
AGENT_HEADERS = ("x-claude-code-agent-id",)
PARENT_HEADERS = ("x-parent-session-id",)
_UNIQUE = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|ses_[A-Za-z0-9]{10,}")
"""Ids made for one session: a UUID, OpenCode's own. Any other cache key or user id may be shared by many."""
_HOURS = re.compile(r"[0-9]{1,3}h")
_LONGEST = 400
_CLIENTS = {"claude-cli": "claude-code", "opencode": "opencode", "pi": "pi"}


def named(headers: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    """Return the first of these headers that holds a usable id."""
    for name in names:
        value = headers.get(name, "").strip()
        if value and len(value) <= _LONGEST and value.isprintable():
            return value
    return None


def unique(value: Any) -> str | None:
    """Return ``value`` if it is an id made for one session, else None."""
    return value if isinstance(value, str) and _UNIQUE.fullmatch(value) else None


def harness(headers: Mapping[str, str]) -> str:
    """Return the client's name from its user agent; ``proxy`` where it is none of the known ones."""
    agent = headers.get("user-agent", "")
    client = agent.split("/", 1)[0].split(" ", 1)[0].lower()
    return "codex" if client.startswith("codex") else _CLIENTS.get(client, "proxy")


def small(body: Body, name: str) -> Any:
    """Return a small member decoded, None where it is absent or broken."""
    try:
        return body.value(name)
    except MessageError:
        return None


def retention(body: Body, out: Outgoing) -> str:
    """Return the lifetime OpenAI's APIs are asked for (``Protocol.lifetime``)."""
    asked = small(body, "prompt_cache_retention") if "prompt_cache_retention" in body.members else None
    return asked if isinstance(asked, str) and _HOURS.fullmatch(asked) else ""


def region(body: Body, name: str) -> bytes:
    """Return a member raw for ``Session.prepare``: ``b""`` where it is absent or null."""
    raw = body.members.get(name, b"")
    return b"" if raw == b"null" else raw

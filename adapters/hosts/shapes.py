"""The parameters of the link's methods (``specs/link.md``). Unknown members are ignored: a plugin may be newer."""

from __future__ import annotations

from typing import Any

import msgspec


class Hello(msgspec.Struct):
    """Who calls. ``protocol``: the version of the link it speaks; ``can``: what it does when asked (``summarize``)."""

    host: str
    protocol: int
    version: str = ""
    token: str = ""
    can: list[str] = []


class Fresh(msgspec.Struct):
    """A message the process does not have yet, with the host's id of it (``""``: none)."""

    message: msgspec.Raw
    id: str = ""


class Pass(msgspec.Struct):
    """The host is about to ask a model. ``order``: the list of messages, as stretches of list ``base`` and new ones.

    ``held``: the pass whose view the plugin has, 0: none. ``reduce``: whether the agent can call ``ctx_reduce``.

    ``system``: the host's own text, None: unchanged. ``parent``: the session this one is a child of. ``helper``: what
    kind of call beside the session this is (a title, a summary), which is never managed. Limits in tokens, 0: unknown.
    """

    session: str
    order: list[tuple[int, int] | Fresh]
    count: int
    base: str = ""
    held: int = 0
    system: Any = None
    tools: list[Any] | None = None
    model: str = ""
    context_limit: int = 0
    output_limit: int = 0
    parent: str = ""
    helper: str = ""
    codec: str = ""
    reduce: bool = True


class Open(msgspec.Struct):
    """A session before its first pass. ``reduce``: whether the agent can call ``ctx_reduce``."""

    session: str
    reduce: bool = True


class Of(msgspec.Struct):
    """A session, by the host's id. ``command``: an id of the call that repeats with a repeated call."""

    session: str
    command: str = ""


class Usage(msgspec.Struct):
    """What a provider counted for the request of pass ``number``. None: it did not say."""

    session: str
    number: int
    command: str = ""
    input: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None


class Failure(msgspec.Struct):
    """What became of the request of pass ``number``. ``kind`` ``""``: to be told from ``text``, the error's words."""

    session: str
    number: int
    kind: str = ""
    text: str = ""
    status: int = 0
    command: str = ""


class Tool(msgspec.Struct):
    """The agent called a tool of ours."""

    session: str
    name: str
    arguments: dict[str, Any] = {}
    call: str = ""


class Fork(msgspec.Struct):
    """A new session goes on from ``session``, from behind message ``at`` (a host id; ``""``: from its end).

    A list: the new session's messages in order; it goes on from behind the last one the other's requests had.
    """

    session: str
    new: str
    at: str | list[str] = ""


class Removed(msgspec.Struct):
    """The host took messages away, by their ids."""

    session: str
    ids: list[str]


class Ack(msgspec.Struct):
    """The digest of what the plugin made of an answer's view. ``missing``: ids it named that the host did not have."""

    session: str
    number: int
    digest: str
    missing: list[str] = []

"""Calls of foldlog's own tools that went out in an answer, so that each reaches the session it was made in."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ...domain.errors import InputError, UnknownSession

TOOLS = ("ctx_reduce", "ctx_expand")
KEPT = 1_000
"""Calls remembered; a forgotten one is reached by its session's name."""
PATIENCE = 2.0
"""Seconds a call is waited for: a client may run a tool before the end of the answer that calls it."""


class Call(msgspec.Struct, frozen=True):
    """One call. ``name``: without MCP prefix; ``key``: its session, ``harness/id``."""

    id: str
    name: str
    key: str


def own(name: str) -> str:
    """Return a tool's name without a host's MCP prefix, ``""`` where it is none of ours."""
    return next((tool for tool in TOOLS if name == tool or name.endswith(("__" + tool, "_" + tool))), "")


class Pending:
    """The calls that wait for their result, newest last. Used on the event loop only."""

    def __init__(self) -> None:
        self.patience = PATIENCE
        self._calls: OrderedDict[str, Call] = OrderedDict()
        self._open: set[str] = set()
        self._sessions: OrderedDict[str, None] = OrderedDict()
        self._news = asyncio.Event()

    def saw(self, key: str, calls: Iterable[tuple[str, str]]) -> None:
        """Take in the calls of an answer: id and name each."""
        for id, called in calls:
            name = own(called)
            if not name or not id or id in self._calls:
                continue
            self._calls[id] = Call(id, name, key)
            self._open.add(id)
            while len(self._calls) > KEPT:
                gone, _ = self._calls.popitem(last=False)
                self._open.discard(gone)
            self._news.set()
            self._news = asyncio.Event()

    def next(self, key: str) -> None:
        """Say that the session asked again: whatever it called before has its result."""
        self._sessions[key] = None
        self._sessions.move_to_end(key)
        while len(self._sessions) > KEPT:
            self._sessions.popitem(last=False)
        self._open -= {id for id in self._open if self._calls[id].key == key}

    async def find(self, name: str, given: Mapping[str, Any]) -> tuple[str, str]:
        """Return the name of a call's session and its command id, waiting a moment for a call not seen yet.

        Raises ``UnknownSession`` where no call fits, or several do.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self.patience
        while True:
            news = self._news
            try:
                return self._find(name, given)
            except UnknownSession:
                left = until - loop.time()
                if left <= 0:
                    raise
            try:
                await asyncio.wait_for(news.wait(), left)
            except TimeoutError:
                until = 0.0

    def _find(self, name: str, given: Mapping[str, Any]) -> tuple[str, str]:
        id = _text(given, "tool_use_id")
        if id:
            known = self._calls.get(id)
            if known is not None:
                if known.name != name:
                    raise InputError(f"that call is one of {known.name}", value=id, where="tool_use_id")
                return known.key, id
        wanted = _text(given, "session")
        fitting = [self._calls[one] for one in self._open if self._calls[one].name == name]
        if wanted:
            named = [key for key in self._sessions if key == wanted or key.rpartition("/")[2] == wanted]
            if len(named) != 1:
                raise UnknownSession(
                    "several sessions have that id; give harness/id" if named else "the proxy serves no such session",
                    value=wanted,
                    where="session",
                )
            mine = [call for call in fitting if call.key == named[0]]
            return named[0], id or (mine[0].id if len(mine) == 1 else "")
        sessions = {call.key for call in fitting}
        if len(sessions) == 1 and not id:
            return fitting[0].key, fitting[0].id if len(fitting) == 1 else ""
        if not fitting or id:
            raise UnknownSession(
                "no session of this proxy has such a call open; name the session", value=id or name, where="tool_use_id"
            )
        raise UnknownSession(
            f"{len(fitting)} open calls of {name} fit, in {', '.join(sorted(sessions))}; name the session",
            where="session",
        )


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name) or ""
    if not isinstance(value, str):
        raise InputError("must be text", value=value, where=name)
    return value

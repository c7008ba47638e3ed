"""How a call finds its session: through the running proxy that saw it go out, else in the store by its name."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec

from ...domain.errors import FoldlogError, OptionError, UnknownSession
from .. import local
from ..config import Config
from .tools import perform

PATIENCE = 15.0
"""Seconds a proxy has for one call."""
LISTED = 20
CALL_KEYS = ("claudecode/toolUseId", "callId")
"""Where hosts put the model's id of a tool call into the request's metadata: Claude Code, Codex."""
THREAD_KEYS = ("threadId",)
"""Where hosts put their own id of the session: Codex."""


class Asked(msgspec.Struct, frozen=True):
    """One call as it came in; ``""`` = not said.

    ``id``: the model's id of it; ``thread``: the host's id of its session; ``session``: what the model named by itself;
    ``arguments``: without it.
    """

    name: str
    arguments: dict[str, Any]
    id: str = ""
    thread: str = ""
    session: str = ""


def asked(name: str, arguments: Mapping[str, Any] | None, meta: Mapping[str, Any] | None) -> Asked:
    """Read a call: its arguments, and what the host's metadata says of where it came from."""
    rest = dict(arguments or {})
    session = rest.pop("session", "")
    return Asked(
        name, rest, _first(meta, CALL_KEYS), _first(meta, THREAD_KEYS), session if isinstance(session, str) else ""
    )


def _first(meta: Mapping[str, Any] | None, keys: tuple[str, ...]) -> str:
    found = ((meta or {}).get(key) for key in keys)
    return next((value for value in found if isinstance(value, str) and value), "")


def answer(call: Asked, config: Config, environ: Mapping[str, str]) -> str:
    """Carry out a call where its session is, and return the text for the model. Raises ``FoldlogError``.

    The host's id of the call decides, then the host's id of the session, then the session the model names, then the
    only call of that name the proxy saw go out. What fits several sessions is an error that names them.
    """
    running = _proxies(environ)
    if not running:
        return _from_store(call, config)
    if len(running) > 1 and not (call.id or call.thread or call.session):
        raise UnknownSession(
            f"{len(running)} proxies of foldlog are running and nothing says which one this call came through; give "
            "'session'"
        )
    problem: FoldlogError | None = None
    for run in running:
        try:
            return _from_proxy(call, run)
        except UnknownSession as error:
            problem = problem or error
    assert problem is not None
    raise problem


def _proxies(environ: Mapping[str, str]) -> list[local.Run]:
    if environ.get(local.PROXY_ENV, ""):
        run = local.proxy(environ=environ)
        return [] if run is None else [run]
    with contextlib.suppress(OptionError):
        run = local.proxy(environ=environ)
        return [] if run is None else [run]
    return local.proxies()


def _from_proxy(call: Asked, run: local.Run) -> str:
    import httpx

    given = {"arguments": call.arguments, "tool_use_id": call.id, "session": call.thread or call.session}
    try:
        with httpx.Client(timeout=PATIENCE, trust_env=False) as client:
            got = client.post(
                f"{run.url}/foldlog/tools/{call.name}",
                json={name: value for name, value in given.items() if value or name == "arguments"},
                headers={"authorization": f"Bearer {run.token}"},
            )
        said = msgspec.json.decode(got.content)
    except (httpx.HTTPError, msgspec.MsgspecError) as error:
        raise FoldlogError(
            f"foldlog's proxy did not answer ({type(error).__name__}); nothing was done, go on without it",
            code="UNREACHABLE",
        ) from None
    text = said.get("text") if isinstance(said, dict) else None
    if got.status_code == 200 and isinstance(text, str):
        return text
    told = said.get("error") if isinstance(said, dict) else None
    message, code = str(told or "foldlog's proxy refused the call"), ""
    if isinstance(told, dict):
        message, code = str(told.get("message")), str(told.get("code"))
    kind = UnknownSession if code == UnknownSession.code else FoldlogError
    raise kind(message, code=code or None)


def _from_store(call: Asked, config: Config) -> str:
    from ...api import Engine
    from ...projections.fold import load

    with Engine.open(config.db, summarizer=None) as engine:
        if not call.session:
            names = [name for name, _ in engine.sessions()]
            more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
            known = f"; the store has {', '.join(names[:LISTED])}{more}" if names else "; the store has none yet"
            raise UnknownSession(
                "no proxy of foldlog is running, so nothing says which session this call belongs to: give 'session'"
                + known
            )
        state = load(engine.log, engine.find(call.session)).state
        session = engine.session(
            state.session, state.harness, codec=state.codec or None, mode=state.mode, reduce_tool=state.reduce
        )
        return perform(call.name, session, call.arguments, call.id)

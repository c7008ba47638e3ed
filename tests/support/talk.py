"""A small conversation played through the engine: builders of Anthropic messages, and a host that keeps its array."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

import msgspec

import foldlog

START = 1_750_000_000.0
STEP = 10.0
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def assistant(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def call(id: str, name: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def result(id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def thinking(said: str = "hm") -> dict[str, Any]:
    return {"type": "thinking", "thinking": said, "signature": "c2ln"}


def image() -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}


def words(count: int, word: str = "word") -> str:
    """Return a text of about ``count`` tokens."""
    return " ".join([word] * count)


def fingerprint(session: foldlog.Session) -> str:
    """Return a digest of all that a session is: its state, its view, and the head of its stream."""
    core = session.core
    with core.lock:
        hot = core.hot()
        whole = msgspec.msgpack.encode((hot.state, hot.view, core.log.head(core.stream)))
    return sha256(whole).hexdigest()


def shown(request: foldlog.Request) -> list[int]:
    """Return the tags a request shows, in order."""
    return [
        int(n)
        for raw in request.messages_json[request.built.leading :]
        for n in re.findall(r"(?<!dropped )§(\d+)§", raw.decode())
    ]


def events(session: foldlog.Session, kind: type | None = None) -> list[Any]:
    """Return the stored events of a session, all or of one kind."""
    stored = [one.event for one in session.core.log.read(session.core.stream)]
    return [event for event in stored if kind is None or isinstance(event, kind)]


def differences(engine: foldlog.Engine, name: str = "chat") -> list[Any]:
    """Return what an audit finds wrong with a session's log. Whether wire code is as released has a test of its own."""
    return [one for one in engine.audit(name).differences if one.kind != "wire"]


MARKED_ONLY = {"protected_tools": {"bash": 1_000}}
"""A policy under which only what was marked leaves: no lane takes out results of this tool by itself."""


class Chat:
    """A host that keeps its whole array, hands it over on each call, and whose clock goes on ten seconds a call.

    ``lanes``: lanes that act without being asked may take out its tools' output too.
    """

    def __init__(
        self, engine: foldlog.Engine | None = None, id: str = "chat", *, lanes: bool = False, **options: Any
    ) -> None:
        self.engine = engine or foldlog.Engine.open("memory:", summarizer=None)
        self.options = {"context_limit": 200_000, **options}
        if not lanes:
            self.options["policy"] = {**MARKED_ONLY, **options.get("policy", {})}
        self.id = id
        self.session = self.engine.session(id, **self.options)
        self.messages: list[Any] = []
        self.now = START
        self.given: dict[str, Any] = {}

    @property
    def state(self) -> Any:
        return self.session.core.hot().state

    def again(self, *, wait: float = STEP, **given: Any) -> foldlog.Request:
        """Send the array as it is."""
        self.now += wait
        return self.session.prepare(self.messages, now=self.now, **{**self.given, **given})

    def say(self, *messages: Any, wait: float = STEP, **given: Any) -> foldlog.Request:
        """Send the array with ``messages`` at its end."""
        self.messages += messages
        return self.again(wait=wait, **given)

    def advance(self, *new: Any, revised: Any = (), retracted: Any = (), wait: float = STEP) -> foldlog.Request:
        """Tell only what changed; the array this host keeps is not touched."""
        self.now += wait
        return self.session.advance(list(new), revised=revised, retracted=retracted, now=self.now)

    def turn(self, said: str = "go on", **given: Any) -> foldlog.Request:
        """Take the model's answer, a text, and send what the person says to it."""
        return self.say(assistant("ok"), user(said), **given)

    def tool(self, id: str, output: Any, *before: Any, name: str = "Bash", **arguments: Any) -> foldlog.Request:
        """Take the model's call of a tool and send its result."""
        return self.say(assistant([*before, call(id, name, **arguments)]), user([result(id, output)]))

    def reopen(self, **options: Any) -> None:
        """Ask for the session again, with other options."""
        self.options.update(options)
        self.session = self.engine.session(self.id, **self.options)

    def last(self) -> Any:
        """Return the event of the newest pass."""
        return self.session.core.log and events(self.session)[-1]


def use(request: foldlog.Request, tokens: int) -> None:
    """Report that the provider counted ``tokens`` for a request."""
    request.report_usage(input=tokens, cache_read=0, cache_write=0, output=1)

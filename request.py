"""One request: what to send on a model call, and the door to say what became of it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import msgspec

from . import engine, keeping
from .domain import arguments
from .domain import events as ev
from .domain.errors import InputError
from .domain.overflow import Explained, bulky, explain, judge, outcome, unbound
from .domain.passes.lanes.images import shows_pictures
from .domain.passes.schedule import gauge
from .domain.session import BULKY, UNBOUND
from .domain.window import percent
from .projections import request as requests
from .projections.hot import Hot
from .projections.replaying import Replayed

DETAIL = 2_000
"""How many characters of a provider's error are kept."""
OUTCOMES = ("overflow", "not_processed", "aborted", "broken", "unknown")


InHand: TypeAlias = tuple[int, requests.Built]
"""The number of a pass and its request as bytes, which somebody still holds."""


class Session(Protocol):
    """The session a request belongs to, as far as a request asks of it."""

    @property
    def core(self) -> engine.Core:
        """The session in memory."""
        ...

    def build(self, produced: keeping.Produced, before: InHand | None = None) -> requests.Built:
        """Return the whole request of a pass as bytes. ``before``: one it may go on behind."""
        ...

    def reopen(self, pass_number: int | None = None) -> Request:
        """Return the request of an earlier pass."""
        ...

    def watch(self) -> None:
        """Look whether older history is due for a summary."""
        ...


class Delta(msgspec.Struct, frozen=True):
    """One message of the host as it is sent now: new, or changed by this pass.

    ``handle``: the host's message id, else the message's ordinal; ``messages``: what it became on the wire (none where
    it is left out), ``json`` the same as bytes.
    """

    handle: str | int
    json: tuple[bytes, ...]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The wire messages, decoded."""
        return [msgspec.json.decode(raw) for raw in self.json]


class Request:
    """What to send on one model call, and the door to say what became of it.

    ``level``: ``defer``, ``soft+``, ``soft`` or ``hard``. ``reasons``: why. ``digest``: hex of the chain over all
    blocks. ``usage_estimate``: prompt tokens, calibrated. ``delta``: new and changed messages, always there.
    ``messages``, ``system`` and ``tools`` are built when asked for, from the log where the session has moved on.
    """

    def __init__(
        self,
        session: Session,
        produced: keeping.Produced | Replayed,
        estimate: int,
        timed: bool,
        before: InHand | None = None,
    ) -> None:
        event = produced.event
        self._session = session
        self._produced = produced
        self._timed = timed
        self._built: requests.Built | None = None
        self._before = before
        self.level = requests.level(event)
        self.reasons: tuple[str, ...] = requests.reasons(event)
        self.digest = event.digest.hex()
        self.pass_number = event.number
        self.usage_estimate = estimate

    def __repr__(self) -> str:
        return f"<Request pass {self.pass_number} {self.level} {self.digest[:12]}>"

    @property
    def session(self) -> Session:
        """The session this is a request of."""
        return self._session

    @property
    def produced(self) -> keeping.Produced:
        """The stored pass behind this request, for adapters that send changes instead of messages."""
        if not isinstance(self._produced, keeping.Produced):
            raise InputError("a last-good request is no pass of its own before it is recorded")
        return self._produced

    @property
    def recorded(self) -> bool:
        """Whether the log tells of it: a last-good request is recorded later (LAST-2)."""
        return isinstance(self._produced, keeping.Produced)

    @property
    def base(self) -> int:
        """The number of the request it goes on behind."""
        return self._produced.event.base

    @property
    def goes_on(self) -> bool:
        """Whether ``delta`` is all that this request has behind the one before it (``base``), which stays as it is.

        Not where the host changed something, nor where another process made the pass.
        """
        made = self._produced
        here = made.made if isinstance(made, keeping.Produced) else True
        return here and self.level == "defer" and not any(reason.startswith("host_") for reason in self.reasons)

    @property
    def delta(self) -> tuple[Delta, ...]:
        """New and changed messages, in path order."""
        state = self._session.core.hot().state
        known = len(state.nodes)  # what a last-good request adds is not recorded yet
        names = (state.node(one.m).message.host_id if one.m <= known else "" for one in self._produced.delta)
        return tuple(Delta(name or one.m, one.json) for name, one in zip(names, self._produced.delta, strict=True))

    @property
    def built(self) -> requests.Built:
        """The whole request as bytes."""
        if self._built is None:
            self._built, self._before = self._whole(), None
        return self._built

    @property
    def in_hand(self) -> InHand | None:
        """What the next request may go on behind: this one, where its bytes were asked for and it is the head's."""
        event = self._produced.event
        side = isinstance(event, ev.PassDeferred) and event.side is not None
        return None if self._built is None or side else (event.number, self._built)

    def _whole(self) -> requests.Built:
        made = self._produced
        if isinstance(made, keeping.Produced):
            return self._session.build(made, self._before)
        base = self._session.reopen(made.event.base).built
        more = [(raw, one.m) for one in made.delta for raw in one.json]
        return msgspec.structs.replace(
            base,
            messages=(*base.messages, *(raw for raw, _ in more)),
            owners=(*base.owners, *(m for _, m in more)),
            digest=made.event.digest,
        )

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages to send, with cache marks where the provider takes them."""
        return self.built.marked()[1]

    @property
    def messages_json(self) -> tuple[bytes, ...]:
        """The messages to send, byte for byte, without cache marks."""
        return self.built.messages

    @property
    def system(self) -> Any:
        """The system member to send (None: leave it out), guidance and cache mark included."""
        return self.built.marked()[0]

    @property
    def tools(self) -> Any:
        """The tool list to send, as the host gave it (None: leave it out)."""
        return msgspec.json.decode(self.built.tools) if self.built.tools else None

    def report_usage(
        self,
        input: int | None = None,
        cache_read: int | None = None,
        cache_write: int | None = None,
        output: int | None = None,
        now: Any = None,
        command: str = "",
    ) -> None:
        """Say what the provider counted for this request. None: not reported. Raises ``InputError`` below 0.

        ``command``: the provider's response id, so that a repeated report is taken once.
        """
        given = {"input": input, "cache_read": cache_read, "cache_write": cache_write, "output": output}
        counts = {name: arguments.count(name, value) for name, value in given.items()}
        core = self._session.core
        event = self._produced.event

        def build(_: Hot, at: int) -> list[ev.Event]:
            heard = arguments.milliseconds(now)
            if heard is None:
                heard = event.now if self._timed else at
            return [ev.UsageReported(at, "", event.number, heard, **counts)]

        core.command(build, command)
        core.snapshot()
        self._session.watch()

    def report_failure(
        self, kind: str, *, limit: int | None = None, used: int | None = None, detail: str = "", command: str = ""
    ) -> None:
        """Say that this request failed: ``overflow``, ``not_processed``, ``aborted``, ``broken`` or ``unknown``."""
        if kind not in OUTCOMES:
            raise InputError(f"a request fails by one of {', '.join(OUTCOMES)}", value=kind, where="kind")
        top, taken = arguments.count("limit", limit), arguments.count("used", used)
        said = arguments.text("detail", detail)
        if kind == "overflow":
            self._overflowed({"limit": max(top, 0), "used": max(taken, 0)}, None, said, command)
            return
        self._ended(kind, said, command)

    def _ended(self, how: str, said: str, command: str) -> None:
        def build(_: Hot, at: int, words: bytes) -> list[ev.Event]:
            return [ev.RequestOutcome(at, "", self.pass_number, how, words)]

        self._record(build, said, command)

    def _overflowed(self, figures: dict[str, Any], model: str | None, said: str, command: str) -> None:
        def build(hot: Hot, at: int, words: bytes) -> list[ev.Event]:
            name = hot.state.model if model is None else model
            return [ev.OverflowReported(at, "", self.pass_number, name, **figures, detail=words)]

        self._record(build, said, command)

    def _record(self, build: Callable[[Hot, int, bytes], list[ev.Event]], said: str, command: str) -> None:
        """Store what became of the request, with the provider's words as a chunk."""
        words = said[:DETAIL].encode("utf-8", "replace")
        digest = hashlib.sha256(words).digest() if words else b""
        texts = {digest: words} if words else {}
        self._session.core.command(lambda hot, at: build(hot, at, digest), command, texts)

    def report_error(
        self,
        status: int | None,
        body: bytes | str = b"",
        *,
        code: str | None = None,
        model: str | None = None,
        command: str = "",
    ) -> Explained:
        """Hand over the provider's error as it came; return what it means, and record it as what it is.

        ``status``: HTTP's, None if there was none; ``code``: one told beside the body (a stop reason, an SDK's class);
        ``model``: which one answered, where a router chose another. An overflow is learnt from, anything else is not.
        """
        if status is not None and (isinstance(status, bool) or not isinstance(status, int)):
            raise InputError("a status is a number or None", value=status, where="status")
        if not isinstance(body, bytes | str):
            raise InputError("a body is bytes or text", value=body, where="body")
        found = explain(status, body, None if code is None else arguments.text("code", code))
        with self._session.core.lock:
            core = self._session.core
            found = judge(found, _share(core), pictures=shows_pictures(core.hot().state))
            answered = None if model is None else arguments.named("model", model)
            words = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
            if found.overflow:
                self._overflowed(_figures(found), answered, words, command)
            elif unbound(found, words):
                self._ended(UNBOUND, words, command)
            elif bulky(found):
                self._ended(BULKY, words, command)
            else:
                self.report_failure(outcome(found), detail=words, command=command)
        return found

    async def areport_error(self, status: int | None, body: bytes | str = b"", **details: Any) -> Explained:
        """``report_error`` for asyncio."""
        return await asyncio.to_thread(lambda: self.report_error(status, body, **details))

    async def areport_usage(self, **counts: Any) -> None:
        """``report_usage`` for asyncio."""
        await asyncio.to_thread(lambda: self.report_usage(**counts))

    async def areport_failure(self, kind: str, **details: Any) -> None:
        """``report_failure`` for asyncio."""
        await asyncio.to_thread(lambda: self.report_failure(kind, **details))


def _figures(found: Explained) -> dict[str, Any]:
    """Return what an event says of an overflow."""
    parts = {"input": max(found.input, 0), "output": max(found.output, 0)}
    return {"limit": found.limit, "used": found.used, "kind": found.kind, "bounds": found.bounds, **parts}


def _share(core: engine.Core) -> int:
    """Return how much of its known window the session's last request took, in 1/100 of a per cent; -1 = unknown."""
    state = core.hot().state
    now = gauge(
        state, state.model, state.context_limit, state.output_limit, core.settings(state.policy, state.model), 0
    )
    return percent(now.tokens, now.window.hard) if now.window.known and now.source != "none" else -1

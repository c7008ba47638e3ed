"""One session in memory over its stream: reading it, appending to it, catching up with others. No pass is decided here.

The state is a fold of stored events only: what a command or a pass would change is stored first and taken in
afterwards; whatever fails before that leaves the session as it was.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from . import ports
from .domain import arguments
from .domain import events as ev
from .domain.arcs import is_reduce
from .domain.errors import Conflict, InputError, Refused, StoreBusy, StoreError, TooLarge
from .domain.paths import path_of
from .domain.policy import Settings, make_policy, resolve
from .domain.session import evolve
from .domain.state import State
from .projections import request
from .projections import view as views
from .projections.arrays import Taken
from .projections.fold import FORM, load, take
from .projections.hot import Hot, heat, settle
from .projections.intake import Options, Reader, encode
from .projections.wire import CURRENT, wire
from .storage.protocol import Chunk, Log

ATTEMPTS = 5
"""How often a pass or command is decided again after another process was first."""
SNAPSHOT_EVERY = 1_000
OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
"""The store does not know whether an append was made: the log is read before anything is said or tried again."""


class Produced(msgspec.Struct, frozen=True):
    """A pass that was stored: its event, the stream version it stands at, and the new or changed wire messages.

    ``made``: by this process just now. Of what was read from the log ``delta`` does not hold what came back by it.
    """

    event: ev.Pass
    version: int
    delta: tuple[request.Sent, ...]
    made: bool = False


class Kept:
    """A session of one host, and the log it is a fold of. Every method may be called from any thread, one at a time."""

    def __init__(self, log: Log, stream: str, options: Options, reader: Reader, clock: Callable[[], int]) -> None:
        self.log = log
        self.stream = stream
        self.options = options
        self.reader = reader
        self.clock = clock
        self.lock = threading.RLock()
        self._hot: Hot | None = None
        self._bodies: dict[bytes, bytes] = {}
        self._texts: dict[bytes, bytes] = {}
        self._last: Produced | None = None
        self._taken: Taken | None = None  # the host's last whole array, where it hands over Python objects
        self.summaries: ports.Summaries | None = None
        self.asking = ports.Asking(ports.Ports())
        self._settings: tuple[bytes, str, Settings] | None = None
        self.unrecorded: Callable[[], None] | None = None  # a request sent while nothing could be written (LAST-2)

    def hot(self) -> Hot:
        """Return the session in memory, folded from its log where it is not there yet."""
        if self._hot is None:
            self._hot = heat(load(self.log, self.stream))
        return self._hot

    def body(self, digest: bytes) -> bytes:
        """Return a message's raw bytes as first served. Raises ``StoreDamaged``."""
        found = self._bodies.get(digest)
        if found is None:
            found = self._bodies[digest] = self.log.chunks([digest])[0]
        return found

    def text(self, digest: bytes) -> bytes:
        """Return a text of ours: head, guidance, system, tools. Raises ``StoreDamaged``."""
        found = self._texts.get(digest)
        if found is None:
            found = self._texts[digest] = self.log.chunks([digest])[0]
        return found

    def _fetch(self, digests: Iterable[bytes]) -> None:
        """Load several texts at once: a fold of hundreds of summaries would else wait for the store each time."""
        missing = [digest for digest in dict.fromkeys(digests) if digest and digest not in self._texts]
        if missing:
            self._texts.update(zip(missing, self.log.chunks(missing), strict=True))

    def settings(self, policy: bytes, model: str) -> Settings:
        """Return a policy as it applies to a model."""
        if self._settings is None or self._settings[:2] != (policy, model):
            self._settings = policy, model, resolve(make_policy(policy), model)
        return self._settings[2]

    def command(
        self,
        build: Callable[[Hot, int], Sequence[ev.Event]],
        command: str = "",
        texts: Mapping[bytes, bytes] = MappingProxyType({}),
    ) -> str:
        """Append events made from the session's present state; return the reply stored with a repeated command.

        ``build(hot, at)`` is called again after a conflict. An empty list appends nothing. ``texts``: chunks it names.
        """
        arguments.named("command", command)
        with self.lock:
            if self.unrecorded is not None:
                self.unrecorded()
            if not self.hot().state.codec and not self.refresh(self.hot()):
                build(self.hot(), self.clock())  # what cannot be done must not make a session exist
            self.open()
            command = command or secrets.token_urlsafe(9)
            for _ in range(ATTEMPTS):
                hot = self.hot()
                if command in hot.state.commands:
                    return hot.state.commands[command]
                try:
                    events = list(build(hot, self.clock()))
                except InputError:
                    if self.refresh(hot):
                        continue
                    raise
                if not events:
                    if self.refresh(hot):
                        continue
                    return ""
                events[0] = msgspec.structs.replace(events[0], cmd=command)
                try:
                    self._append(hot, events, [Chunk(digest, data) for digest, data in texts.items()])
                except StoreError as error:
                    if not isinstance(error, Conflict) and error.code != OUTCOME_UNKNOWN:
                        raise
                    self._catch_up(command)
                    continue
                self._texts.update(texts)  # summaries: the next fold shows them, and need not read them back
                self._evolve(hot, events)
                return hot.state.commands.get(command, "")
            raise Conflict(self.stream, 0, self.hot().state.version)

    def open(self, event: ev.SessionOpened | None = None) -> bool:
        """Make the session exist; return whether this call did. Two processes may both try; one wins, both go on."""
        hot = self.hot()
        if hot.state.codec:
            return False
        event = event or self._opening(None)
        try:
            self._append(hot, [event], ())
        except Conflict:
            self._catch_up("")
            return False
        self._evolve(hot, [event])
        return True

    def _opening(self, tools: Any) -> ev.SessionOpened:
        """Return the event that opens the session; the tools say if ``ctx_reduce`` can be called (convention 10)."""
        options = self.options
        reduce = options.reduce
        if tools is not None:
            names = wire(CURRENT).tool_names(options.codec, encode(tools, "tools") if tools else b"")
            reduce = any(is_reduce(name) for name in names)
        return ev.SessionOpened(
            self.clock(), secrets.token_urlsafe(9), options.harness, options.session, options.codec, options.mode,
            reduce, CURRENT, options.tokenizer,
        )  # fmt: skip

    def refresh(self, hot: Hot | None = None) -> bool:
        """Take in what another process appended meanwhile; say whether there was anything.

        Asked wherever nothing will be appended, so that no conflict tells: before an answer from memory, or an error.
        """
        end = self.log.head(self.stream)
        if end is None or end.version == (hot or self.hot()).state.version:
            return False
        self._catch_up("")
        return True

    def _append(self, hot: Hot, events: Sequence[ev.Event], chunks: Iterable[Chunk]) -> None:
        try:
            place = self.log.append(self.stream, hot.state.version, events, chunks)
        except (Conflict, StoreBusy, TooLarge):
            raise
        except StoreError as error:
            if error.code != OUTCOME_UNKNOWN:
                self._hot = None
            raise  # what another reads of the log tells whether it was stored: our command id is in it
        except BaseException:
            self._hot = None  # whether it was stored is not known: the next call folds the log again
            raise
        hot.digest = place.digest

    def _evolve(self, hot: Hot, events: Sequence[ev.Event], change: views.Change | None = None) -> None:
        try:
            for event in events:
                evolve(hot.state, hot.state.version + 1, event)
                if change is not None and isinstance(event, ev.Pass):
                    views.take(hot.view, event, change)
                else:
                    views.evolve(hot.view, event)
        except BaseException:
            self._hot = None
            raise

    def _catch_up(self, command: str) -> Produced | None:
        """Take in what another process appended; return our own pass where it is among it."""
        hot = self.hot()
        mine: Produced | None = None
        refused: ev.PassRefused | None = None
        ours = False
        try:
            for stored in self.log.read(self.stream, hot.state.version, None, hot.digest or None):
                take(self.log, hot, stored)
                ours = bool(command) and (stored.event.cmd == command or (ours and not stored.event.cmd))
                if ours and isinstance(stored.event, ev.Pass):
                    mine = Produced(stored.event, stored.version, self._delta(hot, stored.event))
                elif ours and isinstance(stored.event, ev.PassRefused):
                    refused = stored.event
        except BaseException:
            self._hot = None
            raise
        settle(hot)
        hot.received = []
        if refused is not None:
            raise Refused(refused.message, code=refused.code, where=self.stream)
        return mine

    def _delta(self, hot: Hot, event: ev.Pass) -> tuple[request.Sent, ...]:
        """Render what a stored pass added or changed; ``hot`` stands right behind it."""
        touched = {one.m for one in (*event.arrivals, *getattr(event, "edits", ()), *event.inserts)}
        path = [m for m in path_of(hot.state, event) if m in touched]
        sees = request.beside(hot.view, event)
        return tuple(request.follow(sees, b"", path, lambda m: self.body(hot.state.node(m).message.body), self.text))

    def fork_from(self, parent: str, version: int, digest: bytes, head_m: int) -> None:
        """Begin this stream as a fork of ``parent`` at ``version``, with the head behind message ``head_m``."""
        options = self.options
        event = ev.SessionForked(
            self.clock(), secrets.token_urlsafe(9), options.harness, options.session, parent, version, digest, head_m
        )
        hot = Hot(State(stream=self.stream), views.View())
        self._append(hot, [event], ())
        self._hot = None

    def snapshot(self) -> None:
        """Keep both folds, if enough was appended since the last time. Never called inside a pass."""
        with self.lock:
            hot = self._hot
            if hot is None or hot.state.version - hot.snapshot < SNAPSHOT_EVERY:
                return
            body = msgspec.msgpack.encode((hot.state, hot.view))
            try:
                self.log.save_snapshot(self.stream, hot.state.version, hot.digest, FORM, body)
            except StoreError:
                return  # a snapshot is a convenience; the log is whole without it
            hot.snapshot = hot.state.version

"""What an engine may ask beside the log: whoever makes summaries, notes of the agent that wait, and a search.

Notes and a search are off until given one. They are asked inside a pass, and a turn is worth more than a hint: one
deadline for all that a pass asks, calls in threads of their own, and what breaks or is late is left out. A call
that was given up and still runs is not joined by another: a port that hangs delays one turn, not each.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from .domain.errors import how
from .domain.passes import heard
from .domain.passes.given import Need, Outlook
from .domain.passes.heard import Heard, Silence, Waiting

if TYPE_CHECKING:
    from .engine import Core

DEADLINE = 3.0
"""Seconds a pass waits for its ports (``transform.md`` 6.6)."""


class Found(msgspec.Struct, frozen=True):
    """Something a search found. ``kind``: ``memory``, ``message`` or ``commit``; ``score``: 0 to 1.

    ``sha``, ``age``: of a commit, as a person reads them (``3d ago``).
    """

    kind: str
    text: str
    score: float
    sha: str = ""
    age: str = ""


class Summaries(Protocol):
    """What a session asks of whoever makes its summaries."""

    def outlook(self, core: Core) -> Outlook:
        """Whether a summary may still come: by the session's state alone, so that a restart changes nothing."""
        ...

    def watch(self, core: Core) -> None:
        """Look whether one is due; called when a pass has gone out."""
        ...

    def close(self) -> None:
        """Look no more."""
        ...

    def relieve(self, core: Core, waiting: Callable[[str], None] | None) -> bool:
        """Wait for one at 95%; return whether something was published."""
        ...


class Notes(Protocol):
    """Where the agent's notes are kept. It is asked while a pass is made: it may not call its session.

    Where some wait, the agent is told to read them with a tool ``ctx_note``, whose argument ``action`` is ``read``: the
    host offers it.
    """

    def waiting(self, session: str) -> Waiting:
        """Return what waits. ``session``: ``harness/id``."""
        ...


class Search(Protocol):
    """What finds things remembered. It is asked while a pass is made: it may not call its session.

    With what was found the agent is told that a tool ``ctx_search`` finds the whole of it: the host offers it.
    """

    def search(self, query: str, session: str, limit: int, timeout: float) -> Iterable[Found]:
        """Return at most ``limit`` things, the best first, of what the request does not show anyway.

        ``timeout``: seconds after which nobody waits for them any more.
        """
        ...


class _Call:
    """A call of a port under way, or done."""

    def __init__(self, run: Callable[[], Any]) -> None:
        self.done = threading.Event()
        self.result: Any = None
        threading.Thread(target=self._run, args=(run,), name="foldlog-port", daemon=True).start()

    def _run(self, run: Callable[[], Any]) -> None:
        try:
            self.result = run()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it may not cost a turn (FAIL-1)
            self.result = Silence(how(error))
        self.done.set()


class Ports:
    """The ports of an engine, each None where there is none."""

    def __init__(self, notes: Notes | None = None, search: Search | None = None, deadline: float = DEADLINE) -> None:
        self.notes = notes
        self.search = search
        self.deadline = deadline
        self._late: dict[str, _Call] = {}

    def ask(self, stream: str, *, waiting: bool, query: str) -> Heard:
        """Return what they say within the one deadline. ``waiting``: whether notes wait; ``query``: empty for none."""
        session, runs = stream.removeprefix("session/"), dict[str, Callable[[], Any]]()
        if waiting and self.notes is not None:
            counts = self.notes.waiting
            runs["notes"] = lambda: heard.waiting(counts(session))
        if query and self.search is not None:
            search = self.search.search
            runs["search"] = lambda: heard.hits(search(query, session, heard.HITS, self.deadline))
        end = time.monotonic() + self.deadline
        calls = {
            name: _Call(run) for name, run in runs.items() if name not in self._late or self._late[name].done.is_set()
        }
        for name, call in calls.items():
            if not call.done.wait(max(end - time.monotonic(), 0)):
                self._late[name] = call
        said = {name: call.result for name, call in calls.items() if call.done.is_set()}
        return Heard(
            said.get("notes", Silence()) if waiting else None,
            said.get("search", Silence()) if query else None,
        )


class Asking:
    """What one session has asked: a decision that is made again asks nothing twice.

    What a search found is kept until a request holds the answer, as the same message may come again; silence is not.
    """

    def __init__(self, ports: Ports) -> None:
        self.ports = ports
        self._known: dict[str, Any] = {}

    def begin(self) -> None:
        """Begin a pass."""
        self._known = {query: said for query, said in self._known.items() if query and not isinstance(said, Silence)}

    def hear(self, stream: str, need: Need, before: Heard) -> Heard:
        """Return what is known with what ``need`` asks for."""
        waiting = need.notes and "" not in self._known
        query = need.query if need.query not in self._known else ""
        if waiting or query:
            said = self.ports.ask(stream, waiting=waiting, query=query)
            self._known.update({"": said.notes} if waiting else {})
            self._known.update({query: said.hits} if query else {})
        notes = self._known[""] if need.notes else before.notes
        hits = self._known[need.query] if need.query else before.hits
        return Heard(notes, hits, before.unread)

    def end(self) -> None:
        """End a pass whose request holds what was said."""
        self._known.clear()

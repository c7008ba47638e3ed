"""What the other processes of the chaos tests do. They are forked from a server that has all of this imported."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache, partial
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import foldlog.keeping
from foldlog.domain import events as ev
from foldlog.domain.errors import Conflict, StoreBusy
from foldlog.storage.protocol import Chunk, Head, Log
from foldlog.storage.stores import open_store
from support import chaos

KILLED = chaos.script()
"""The session that is killed and goes on; made once, in the server, for all children."""
READ: dict[Any, Any] = {}


@cache
def context() -> Any:
    """Return the way to start children: forked from a clean server, so that a child starts in milliseconds."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["support.chaos_child"])
    # The server imports before it is told our path, and passes over what it cannot find.
    known = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    try:
        forkserver.ensure_running()
    finally:
        if known is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = known
    return found


# ------------------------------------------------------------------------ kills


def play(path: str, acks: str, place: str, count: int, passed: Any) -> None:
    """Play the session from the first call that was not acknowledged; die at the ``count``-th time ``place`` is passed.

    Each acknowledged call is one line in ``acks``, written before the next call is made. ``passed`` is a byte that says
    which place was passed last (``r``: none since the session was loaded, or the last call was through).
    """
    left = [count]

    def at(where: str) -> None:
        passed.value = where[:1].encode()
        if where == place:
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    evolve = foldlog.keeping.evolve

    def evolving(*given: Any) -> None:
        at("evolve")
        evolve(*given)
        passed.value = b"r"

    foldlog.keeping.evolve = evolving
    line = os.open(acks, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    host = chaos.Host(f"sqlite:///{path}", KILLED, at, kept=READ)
    passed.value = b"r"
    for call in KILLED.calls[len(Path(acks).read_bytes().splitlines()) :]:
        answer = host.call(call)
        os.write(line, json.dumps(answer).encode() + b"\n")
    host.close()


# ------------------------------------------------------------------------- race


class Meeting:
    """Where processes wait for each other before each append, unless the other one rests."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.at_step = context().Barrier(size, action=self._awake)
        self.turn = context().Condition()
        self.numbers = context().Array("i", 3, lock=False)  # waiting, resting, round

    def _awake(self) -> None:
        self.numbers[1] = 0

    def _go(self) -> bool:
        if self.numbers[0] + self.numbers[1] < self.size:
            return False
        self.numbers[0] = 0
        self.numbers[2] += 1
        self.turn.notify_all()
        return True

    def meet(self) -> None:
        """Wait until all that do not rest are here."""
        with self.turn:
            self.numbers[0] += 1
            now = self.numbers[2]
            if not self._go() and not self.turn.wait_for(lambda: self.numbers[2] != now, timeout=30):
                raise TimeoutError("the other process never came to its append")

    def rest(self) -> None:
        """Let the others go on without this one."""
        with self.turn:
            self.numbers[1] += 1
            if self.numbers[0]:
                self._go()

    def step(self) -> None:
        """Wait for all at the end of a step."""
        self.rest()
        self.at_step.wait(timeout=60)


class Counted:
    """A log that counts the conflicts it reports."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.conflicts = 0

    def append(self, stream: str, expected: int, events: Sequence[ev.Event], chunks: Sequence[Chunk] = ()) -> Head:
        try:
            return self.log.append(stream, expected, events, chunks)
        except Conflict:
            self.conflicts += 1
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)


def talk(steps: int) -> list[dict[str, Any]]:
    """Return a conversation of texts: the answer and the next ask of each step are its two newest messages."""
    said: list[dict[str, Any]] = [{"role": "user", "content": "begin"}]
    for number in range(1, steps):
        said.append({"role": "assistant", "content": [{"type": "text", "text": f"answer {number} " + "word " * 30}]})
        said.append({"role": "user", "content": f"ask {number} " + "more " * 30})
    return said


def patiently(call: Callable[[], Any]) -> Any:
    """Do what a host does that is told to try again."""
    for _ in range(50):
        try:
            return call()
        except (Conflict, StoreBusy):
            continue
    raise AssertionError("fifty times in vain")


def race(url: str, who: int, steps: int, meeting: Meeting, out: str) -> None:
    """Work on one session beside another process: prepare, drop something of our own, report usage, flush at times."""
    log = Counted(open_store(url, lambda where: meeting.meet() if where == "before" else None))
    script = chaos.Script((), None, None, "claude-x", "anthropic")
    host = chaos.Host(log, script, session="shared")  # type: ignore[arg-type]  # a log by its methods
    said = talk(steps)
    acked: list[tuple[int, int, str]] = []
    for number in range(steps):
        meeting.step()
        array = said[: 2 * number + 1]
        request = patiently(partial(host.session.prepare, array, now=1000 + number))
        acked.append((number, request.pass_number, request.digest))
        if number:
            patiently(partial(host.session.reduce, str(2 * number - 1 + who), f"drop-{who}-{number}"))
        if number % 7 == 3 + who:
            patiently(partial(host.session.flush, f"flush-{who}-{number}"))
        usage = {"input": 100 + number, "output": 5, "now": 1000, "command": f"usage-{who}-{number}"}
        patiently(partial(request.report_usage, **usage))
    meeting.rest()
    Path(out).write_text(json.dumps({"conflicts": log.conflicts, "acked": acked}))
    host.close()


def alone(url: str, harness: str, script: chaos.Script, meeting: Meeting, out: str) -> None:
    """Play a session of ``harness`` beside another host's session of the same id; both meet before each append."""
    host = chaos.Host(url, script, lambda where: meeting.meet() if where == "before" else None, harness=harness)
    meeting.at_step.wait(timeout=60)
    answers = [patiently(partial(host.call, call)) for call in script.calls]
    meeting.rest()
    found = [name for name, _ in host.engine.sessions()]
    Path(out).write_text(json.dumps({"answers": answers, "sessions": found, "messages": len(host.state().nodes)}))
    host.close()


def hold(path: str, held: Any, release: Any) -> None:
    """Hold the write lock of an SQLite file until told."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        held.set()
        release.wait(60)
        connection.execute("ROLLBACK")

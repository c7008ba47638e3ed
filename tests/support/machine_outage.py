"""A store that cannot be written for a while: the host goes on with last-good requests, recorded when it is back.

What such a request is, and what becomes of it, is held against the model's own record: LAST-1 to LAST-5.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import foldlog
from support import machine_checks as checks
from support import machine_host as host
from support import machine_signing as signing

if TYPE_CHECKING:
    from foldlog.domain import events as ev
    from support.machine import Machine


@dataclasses.dataclass(frozen=True)
class Owed:
    """A last-good request that is not recorded yet: itself, and what stood before the first of its kind.

    ``raw``: the messages that went out as the host sent them.
    """

    served: checks.Served
    before: checks.Served
    raw: frozenset[int]


def kept(machine: Machine, request: foldlog.Request, items: list[host.Message]) -> None:
    """LAST-1: the last request byte for byte, behind it what is new as the host sent it. Put it on the record."""
    event: Any = request._produced.event
    head = machine.head
    assert head is not None, "LAST-4: a last-good request before the first one"
    before = machine.owed.before if machine.owed is not None else head
    new = items[len(before.items) :]
    assert new, "LAST-4: a last-good request with nothing new"
    assert all(map(host.same, before.items, items)), "LAST-4: a last-good request after other messages changed"
    assert (request.level, request.reasons) == ("defer", ("last_good",)), f"LAST-1: {request!r} {request.reasons}"
    assert event.number == machine.passes + 1, f"LAST-2: {request!r} after pass {machine.passes}"
    built = request.built
    front = built.leading + built.head
    old = [raw for wire in before.wire if wire is not None for raw in wire]
    assert (built.system, built.tools, *built.messages[:front]) == before.prefix, "LAST-1: another head"
    assert [*built.messages[front : front + len(old)]] == old, "LAST-1: other bytes than the last request's"
    wire: list[tuple[bytes, ...]] = []
    place = front + len(old)
    for item in new:
        raw = built.messages[place]
        given = host.to_host(machine.codec, item, 0)
        assert json.loads(raw) == given, f"LAST-1: {given!r} went out as {raw!r}"
        wire.append((raw,))
        place += 1
    assert place == len(built.messages), "LAST-1: more went out than the host sent"
    ms = [*before.ms, *(arrival.m for arrival in event.arrivals)]
    served = checks.Served(event.number, list(items), ms, [*before.wire, *wire], before.prefix, before.regions, event)
    machine.owed = Owed(served, before, frozenset(ms[len(before.ms) :]))
    machine.head, machine.beyond = served, []
    machine.last = request
    machine.raw |= machine.owed.raw
    machine.counts["last good"] += 1
    _valid(machine, request, items)
    signing.answered(machine, request, served)


def _valid(machine: Machine, request: foldlog.Request, items: list[host.Message]) -> None:
    raw = machine.handed(items)
    marked = request.built.marked()
    if machine.codec == "openai-chat":
        system = machine.system_now()
        raw = [{"role": "system", "content": system}, *raw] if system else raw
    checks.valid(machine.codec, marked[0], request.tools, marked[1], raw, machine.system_now(), [], half=True)


def recorded(machine: Machine, event: ev.LastGoodReplayed) -> None:
    """LAST-2: what is recorded is the newest of what went out, with its digest; else it was found later (LAST-6)."""
    machine.models[event.number] = machine.models.get(event.base, machine.model)
    numbers = (abs(number) for arrival in event.arrivals for number in arrival.tags)
    machine.numbered = max([machine.numbered, *numbers])
    owed = machine.owed
    if owed is None or not _as_sent(machine, event, owed):
        machine.replays.append(event)
        return
    _numbered(machine, event, dict(zip(owed.served.ms, owed.served.items, strict=True)))
    machine.passes = event.number
    machine.seen = max(machine.seen, event.now)
    machine.served[event.number] = owed.served
    machine.where[event.number] = machine.id
    machine.owed = None
    machine.counts["last good recorded"] += 1


def _as_sent(machine: Machine, event: ev.LastGoodReplayed, owed: Owed) -> bool:
    """Whether what is recorded is what is owed, by number, digest and form.

    A process that does not know of it finds it in what the host hands over, in another form perhaps: of one digest.
    """
    if (event.number, event.digest) != (owed.served.event.number, owed.served.event.digest):
        return False
    state, served = machine.hot().state, owed.served.by_m()
    known = [arrival.m for arrival in event.arrivals if arrival.m <= len(state.nodes)]  # it may not have read on yet
    nodes = [(m, state.node(m)) for m in known]
    forms = [(m, machine.log.chunks([node.message.body])[0]) for m, node in nodes if not node.revision]
    return all(json.loads(served[m][1][0]) == json.loads(form) for m, form in forms)


def _numbered(machine: Machine, event: ev.LastGoodReplayed, items: dict[int, host.Message]) -> None:
    """Note what went out raw, and the numbers that do not show yet."""
    for arrival in event.arrivals:
        item = machine.went_out[arrival.m] = items[arrival.m]
        for p, number in enumerate(arrival.tags, arrival.first):
            if item["parts"][p]["t"] == "result":
                machine.call_tags.setdefault(item["parts"][p]["id"], set()).add(abs(number))


def missed(machine: Machine, number: int, items: list[host.Message]) -> None:
    """LAST-6, LAST-7: a request no process told of was found in what the host handed over, ``items``."""
    replays, machine.replays = machine.replays, []
    if not replays:
        return
    (event,) = replays
    assert event.number == number - 1, f"LAST-6: replay {event.number} stands before pass {number}"
    before = machine.owed.before if machine.owed is not None else machine.head
    assert before is not None, "LAST-7: before a first request none went out"
    roles = [item["role"] == "assistant" for item in items[len(before.items) :]]
    turns = [is_answer for i, is_answer in enumerate(roles) if not i or roles[i - 1] != is_answer]
    assert len(turns) - (not turns[0]) > 2, "LAST-7: nothing went out that no request held"
    here = {arrival.m for arrival in event.arrivals}
    if machine.owed is not None:
        served = machine.owed.served.by_m()
        machine.unsent = {m: served[m] for m in here & set(served)}
        machine.counts["last good found"] += 1
        given_up(machine)
    new = items[len(before.items) :]
    machine.beyond = new[: len(event.arrivals)]
    _numbered(machine, event, {arrival.m: item for arrival, item in zip(event.arrivals, machine.beyond, strict=False)})
    machine.passes = event.number
    machine.raw |= here
    machine.counts["missed"] += 1


def found(machine: Machine, now: checks.Served) -> None:
    """LAST-6: what is found to have gone out goes on as it went out."""
    sent, machine.unsent = machine.unsent, {}
    raw = [m for m in sent if m in machine.raw]
    for m, item, wire in zip(now.ms, now.items, now.wire, strict=True):
        if m in raw and wire is not None and host.same(sent[m][0], item):
            # its host may hand it over in another form than it did then
            was, is_ = ([host.seen(machine.codec, json.loads(one)) for one in either] for either in (sent[m][1], wire))
            assert was == is_, f"LAST-6: message {m} went out as {was!r}, and now as {is_!r}"


def given_up(machine: Machine) -> None:
    """LAST-5: a pass was made, and what went out before it is lost: its process died, or another's came first."""
    owed = machine.owed
    if owed is None:
        return
    assert machine.orphaned or machine.interloped, "LAST-2: a last-good request was not recorded before the next pass"
    machine.owed = None
    machine.head = owed.before
    machine.raw -= owed.raw
    machine.counts["last good given up"] += 1
    for made in machine.thoughts.values():
        made.loose = made.loose or len(made.items) > len(owed.before.items)


class Outage:
    """The step of a store that cannot be written."""

    def do_outage(
        self: Any, rounds: int = 1, say: int = 1, calls: int = 0, out: int = 1, think: int = 0, then: int = 0
    ) -> None:
        """The store is busy for some rounds. ``then``: the process dies (1), another one goes on (2), the host sends
        again (3), or hands over only its news (4).
        """
        if self.log.fault or self.log.before or self.head is None or not self._current(self.flat()):
            return
        if self.hot().state.version != self.version():
            return  # this process does not know what the other one sent
        self.log.down = True
        try:
            for i in range(1 + rounds % 3):
                self.rounds.append(self._round(say + i, calls, think, out, 0, 0, 0, False, False))
                self.now += 10_000
                if not self._last_good():
                    break
        finally:
            self.log.down = False
        if then == 1:
            self.do_crash()
        elif then == 2:
            self.do_race()
        elif then == 3:
            self.send()
        elif then == 4:
            before = self.flat()
            self.rounds.append(self._round(1, 1, 0, out, 0, 0, 0, False, False))
            self._news(before)

    def _news(self: Any, before: list[host.Message]) -> None:
        items = self.flat()
        if self.owed is None or len(self.owed.served.items) != len(before):
            self.send()
            return
        new = [self._one(m) for m in items[len(before) :]]
        self.counts["advanced behind a last-good"] += 1
        self.passing(lambda: self.session().advance(new, now=self.now / 1000), items)

    def _last_good(self: Any) -> bool:
        """Ask for a last-good request where a pass failed; return whether the host could send something."""
        items = self.flat()
        given = {"system": self.system_now(), "tools": self.tools_now(), "now": self.now / 1000}
        try:
            self.guarded(lambda: self.session().prepare(self.handed(items), **given))
        except foldlog.StoreError:
            pass
        except foldlog.Refused:
            raise AssertionError("LAST-1: a refusal cannot be stored, and is told") from None
        else:
            raise AssertionError("a pass was made, and nothing could be written")
        request = self.guarded(lambda: self.session().last_good(self.handed(items), **given))
        if request is None:
            self.counts["no last good"] += 1
            return False
        kept(self, request, items)
        return True

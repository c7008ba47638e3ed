"""What the host, the provider, the user and other processes can do in the state machine: one method a step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

import foldlog
from foldlog import keeping
from foldlog.storage.protocol import open_log
from support import machine_host as host
from support import machine_signing as signing
from support.machine_history import Told
from support.machine_store import Watched

Step = dict[str, Any]
SAME_FAMILY = 2
"""How many of a wire's models differ in name alone."""
OUTPUTS = (0, 1_000, 900_000)
SYSTEMS: tuple[Any, ...] = (None, "You help.", [{"type": "text", "text": "You help with care."}])
POLICIES: tuple[dict[str, Any] | None, ...] = (
    {"protected_tokens": 20, "execute_threshold_percentage": 40},
    {"protected_tokens": 0, "execute_threshold_percentage": 20, "cache_ttl": "60s"},
    None,
    {"protected_tokens": 20, "cache_ttl": "never"},
    {"compaction": False},
)
WINDOWS = (4_000, 12_000, 0, 1_500)
JUMPS = (3_600_000, 26 * 3_600_000, 10 * 24 * 3_600_000)
TTLS = (300_000, 60_000, 300_000, 1 << 62, 300_000)
THRESHOLDS = (4_000, 2_000, 6_500, 6_500, 6_500)
OWN = {"own_worth", "own_held", "force", "execute"}


class Steps:
    """The steps of ``machine.Machine``, which holds the world they act on."""

    def do_round(
        self,
        say: int = 1,
        calls: int = 0,
        think: int = 0,
        out: int = 0,
        prefix: int = 0,
        media: int = 0,
        extra: int = 0,
        big: bool = False,
        twin: bool = False,
        door: int = 0,
    ) -> None:
        """The model answers, tools or the user follow, the request goes out (``door`` 0: all, 1: news, 2: not yet)."""
        before = self.flat()
        self.rounds.append(self._round(say, calls, think, out, prefix, media, extra, big, twin))
        if self.codec == "openai-chat" and len(self.rounds) == 1:
            return
        self.now += 10_000
        if door == 0:
            self.send()
        elif door == 1:
            self.advance(before)

    def _round(
        self, say: int, calls: int, think: int, out: int, prefix: int, media: int, extra: int, big: bool, twin: bool
    ) -> host.Round:
        uid = "" if twin else self._uid()
        said: list[host.Part] = []
        blank = say % len(host.BODIES) in host.BLANKS
        late = think == 2 and bool(calls) and not blank
        if think and not late:
            said += self._thought(said)
        if not (blank and (self.codec == "openai-chat" or calls)) or self.codec == "anthropic":
            said.append(host.text(say, uid, prefix))
        if big and not blank:
            said.append(host.text(say + 1, uid))
        names = [host.NAMES[(say + i) % 3] for i in range(calls)]
        made = [
            {
                "t": "call",
                "id": f"call_{self._uid()[1:]}",
                "name": name,
                "args": {"a": "x" * (1100 if big else 3), "n": i},
            }
            for i, name in enumerate(names)
        ]
        if late:
            said += self._thought(said)
        said += made
        if not said:
            said.append(host.text(0, uid))
        media_of = media if self.codec != "openai-chat" else 0
        failed = say % 5 == 4 and self.codec not in host.MUTE
        results = [host.result(call["id"], out + i, uid, prefix, media_of, error=failed) for i, call in enumerate(made)]
        also: list[host.Part] = [host.text(out + 1, uid, prefix)] if extra % 3 or not calls else []
        if extra % 3 == 2 or (media and not calls):
            also.append({"t": "media"})
        if self.codec == "anthropic":
            return [self._message("assistant", said), self._message("user", results + also)]
        also = [p for p in also if not host.blank(p)] or ([] if calls else [host.text(0, uid)])
        follow = [self._message("tool", [one]) for one in results]
        answer = [self._message("assistant", said)]
        if self.codec == "openai-responses":  # each item of an answer is a message
            answer = [self._message("assistant", [one]) for one in said]
        return [*answer, *follow, *([self._message("user", also)] if also else [])]

    def _thought(self, before: list[host.Part]) -> list[host.Part]:
        """Return what the model thinks behind ``before``; nothing on a wire that shows no reasoning."""
        found = signing.thought(self, before) if self.codec != "openai-chat" else None  # type: ignore[arg-type]
        return [] if found is None else [found]

    def do_send(self, form: int = 0, twice: bool = False) -> None:
        """The host hands over its whole array, perhaps in another form, perhaps twice."""
        request = self.send(form=form)
        if request is not None and twice:
            self.again(request, form)

    def again(self, request: foldlog.Request, form: int, rounds: list[host.Round] | None = None) -> None:
        """PROP-1, LAW-1: the same input twice gives the same request and appends nothing."""
        version = self.version()
        given = self.handed(self.flat(rounds), form)
        second = self.session().prepare(given, system=self.system_now(), tools=self.tools_now(), now=self.now / 1000)
        self.counts["twice"] += 1
        said = f"{request!r} {request.reasons}, then {second!r} {second.reasons}"
        if second.pass_number != request.pass_number and self.summarised(request):
            self.see(second, self.session(), self.flat(rounds))  # a summary was made in between
            return
        assert (second.pass_number, second.digest) == (request.pass_number, request.digest), f"PROP-1: twice: {said}"
        assert self.version() == version or self.summarised(request), "PROP-1: preparing twice appended something"

    def do_revise(self, at: int = 0, kind: int = 0, body: int = 0, door: int = 0) -> None:
        """The host changes a message: it grows at its end, its first part is edited, a tool's result completes."""
        before = self.flat()
        messages = [m for m in before if m["role"] != "assistant" or kind % 3 == 1]
        old = messages[-1] if kind % 3 == 0 else messages[at % len(messages)]
        parts = [dict(part) for part in old["parts"]]
        uid = self._uid()
        if kind % 3 == 0:
            if old["role"] == "tool":
                return
            parts.append(host.text(body, uid))
        else:
            place = next(
                (p for p, part in enumerate(parts) if part["t"] == ("text" if kind % 3 == 1 else "result")), -1
            )
            if place < 0:
                return
            if parts[place]["t"] == "text":
                parts[place] = host.text(body, uid)
            else:
                parts[place] = host.result(parts[place]["id"], body, uid)
        if self.codec != "anthropic" and any(host.blank(part) for part in parts):
            return
        new = {**old, "parts": parts}
        self.rounds = [[new if m is old else m for m in one] for one in self.rounds]
        self.edits.append(f"revise {new['uid']}")
        self.now += 10_000
        if door == 1 and self.head is not None and self._current(before):
            self.passing(
                lambda: self.session().advance((), [(self._handle(before, old), self._one(new))], now=self.now / 1000),
                self.flat(),
            )
        elif door != 2:
            self.send()

    def do_remove(self, at: int = 0, count: int = 1, door: int = 0) -> None:
        """The host takes rounds out of the middle."""
        if len(self.rounds) < 4:
            return
        before = self.flat()
        first = 1 + at % (len(self.rounds) - 3)
        gone = self.flat(self.rounds[first : min(first + 1 + count % 2, len(self.rounds) - 1)])
        self.rounds = self.rounds[:first] + self.rounds[min(first + 1 + count % 2, len(self.rounds) - 1) :]
        self.edits.append("remove")
        self.now += 10_000
        if door == 1 and self.head is not None and self._current(before):
            self.passing(
                lambda: self.session().advance((), (), [self._handle(before, m) for m in gone], now=self.now / 1000),
                self.flat(),
            )
        elif door != 2:
            self.send()

    def do_insert(self, at: int = 0, calls: int = 0, door: int = 0) -> None:
        """The host puts a round into the middle."""
        if len(self.rounds) < 2:
            return
        place = 1 + at % (len(self.rounds) - 1)
        self.rounds.insert(place, self._round(1, calls, False, 0, 0, 0, 0, False, False))
        self.edits.append("insert")
        self.now += 10_000
        if door != 2:
            self.send()

    def do_side(self, at: int = 0, calls: int = 0, twice: bool = False) -> None:
        """PROP-7: a helper's request on the same session leaves the head alone."""
        rounds = self.rounds[: 1 + at % len(self.rounds)]
        rounds = [*rounds, self._round(2, calls, False, 0, 0, 0, 0, False, False)]
        off = len(self.flat(rounds[:-1]))
        expected = self.head is not None and self._current(self.flat()) and len(self.flat()) - off >= 2
        expected = (
            expected and not self.ids and self.head is not None and self.head.regions == (self.system, self.tools)
        )
        expected = expected and self.log.before is None and self.hot().state.version == self.version()
        before = self.hot().state
        kept = (list(before.path), msgspec.msgpack.encode((before.last, before.base, before.usage, before.fold)))
        self.now += 10_000
        request = self.send(rounds=rounds)
        if request is None:
            return
        event = request._produced.event
        if expected and not self.interloped:
            # Another process's known branch may be extended, or the array may be the head's own in other words.
            aside = getattr(event, "side", None) is not None
            known = event.divergence is not None and event.divergence.cause in (
                "branch",
                "removed",
                "inserted",
                "revised",
            )
            assert aside or known, f"PROP-7: a side request became the head ({request!r}, {event.divergence})"
            if aside:
                now = self.hot().state
                after = (list(now.path), msgspec.msgpack.encode((now.last, now.base, now.usage, now.fold)))
                assert after == kept, "PROP-7: a side request changed the session"
                self.counts["aside"] += 1
        if getattr(event, "side", None) is not None:
            self.side = rounds
        else:
            self.rounds = rounds
        if twice:
            self.again(request, 0, rounds)

    def do_adopt(self, calls: int = 0) -> None:
        """The host goes on behind its last side request: that is the head from now on."""
        if self.side is None:
            return
        self.rounds = [*self.side, self._round(1, calls, False, 1, 0, 0, 0, False, False)]
        self.side = None
        self.edits.append("adopt")
        self.now += 10_000
        self.send()

    def do_rewind(self, at: int = 0, calls: int = 0, inside: bool = False) -> None:
        """The user goes back and says something else; ``inside``: back to between a call and its result."""
        keep = 1 + at % len(self.rounds)
        if inside and keep < len(self.rounds):
            one = [dict(m) for m in self.rounds[keep]]
            for m in one[1:]:
                if not any(p["t"] == "result" for p in m["parts"]):
                    continue
                m["uid"] = self._uid()
                m["id"] = m["uid"] if self.ids else ""
                m["parts"] = [host.result(p["id"], 8, m["uid"]) if p["t"] == "result" else p for p in m["parts"]]
            self.rounds = [*self.rounds[:keep], one]
        else:
            self.rounds = [*self.rounds[:keep], self._round(3, calls, False, 0, 0, 0, 0, False, False)]
        self.edits.append("rewind")
        self.now += 10_000
        self.send()

    def do_usage(self, percent: int = 50, missing: int = 0, old: bool = False) -> None:
        """The provider answered."""
        request = self.last
        if request is None:
            return
        if old and len(self.served) > 1:
            request = foldlog.Request(self.session(), request._produced, 0, True)
        total = (WINDOWS[self.window] or 20_000) * percent // 100
        counts: dict[str, int | None] = {
            "input": total - total // 2,
            "cache_read": total // 2,
            "cache_write": 0,
            "output": 50,
        }
        for bit, name in enumerate(list(counts)):
            if missing >> bit & 1:
                counts[name] = None
        told = [n for name, n in counts.items() if n is not None and name != "output" and n > 0]
        self.command(lambda: self._again(request).report_usage(**counts, now=self.now / 1000))
        if told:
            self.totals.append(sum(told))

    def _again(self, request: foldlog.Request) -> foldlog.Request:
        return foldlog.Request(self.session(), request._produced, 0, True)

    def do_fail(self, kind: int = 0, limit: int = 0) -> None:
        """The request was not answered. ``limit`` from 3 on: an overflow in the provider's own words."""
        if self.last is None:
            return
        if limit > 2:
            size = self.last._produced.event.tokens
            self.limits |= {size * 4 // 5, 2 * size}
            words = f"prompt is too long: {size} tokens > {size * 4 // 5} maximum"
            if limit > 3:
                words = f"input length and max_tokens exceed context limit: {size} + 900000 > {2 * size}"
            self.command(lambda: self._again(self.last).report_error(400, words))  # type: ignore[arg-type]
            return
        name = ("not_processed", "aborted", "broken", "unknown", "overflow")[kind % 5]
        said = {"limit": (None, 3_000, 900)[limit % 3]} if name == "overflow" else {}
        self.command(lambda: self._again(self.last).report_failure(name, **said))  # type: ignore[arg-type]
        if name == "not_processed":
            self.reopened = True
            self.flushed = True  # a flush that was not processed is asked for again

    def do_idle(self, seconds: int = 400, back: bool = False) -> None:
        """Time passes, or the host's clock goes backwards."""
        self.now += -min(seconds, 100) * 1000 if back else seconds * 1000
        self.wall += seconds * 1000

    def do_drop(self, at: int = 0, count: int = 1, what: int = 0) -> None:
        """The agent marks tags as spent: some (0), unknown ones (1), nonsense (2), the newest (3)."""
        seen = max(self.owners, default=0)  # what the agent sees, whichever process sent it
        total = max(len(self.hot().state.tags), seen)
        if what == 1:
            # without visible tags only the last pass tells how many, and what went out unrecorded has some to come
            beyond = max(total, self.numbered) + 1_000 + at
            self.fails(lambda: self.session().reduce(str(beyond)), foldlog.UnknownTag)
        elif what == 2:
            self.fails(lambda: self.session().reduce(("", "x", "5-3", "-1", "1,,2", "§§")[at % 6]), foldlog.RangeError)
        elif total:
            first = 1 + at % total if what != 3 else max(total - count % 12, 1)
            last = min(first + count % 12, total)
            name = f"cmd{self.ticks}" if at % 2 else ""
            if self.behind(first, last):  # covered by a summary: no longer in the request
                self.fails(lambda: self.session().reduce(f"{first}-{last}", name), foldlog.UnknownTag)
                return
            self.expected = (foldlog.UnknownTag,) if self.log.before is not None else ()
            try:
                reply = self.command(lambda: self.session().reduce(f"{first}-{last}", name), bool(name))
            except foldlog.UnknownTag:
                assert self.behind(first, last), "a drop was refused, and nothing of it lies behind the cut"
                return
            finally:
                self.expected = ()
            if name and reply.startswith("Queued"):
                again = self.command(lambda: self.session().reduce(f"{first}-{last}", name), True)
                assert again == reply, f"PROP-1: the same command was answered by {reply!r} and {again!r}"
            self.asked.update(range(first, last + 1))

    def do_flush(self) -> None:
        """A person asks for queued work to land."""
        self.command(lambda: self.session().flush())
        self.flushed = True

    def do_loss(self) -> None:
        """The host knows that the cache is gone."""
        self.command(lambda: self.session().report_cache_loss("restarted"))
        self.lost = True

    def do_change(self, what: int = 0, to: int = 0) -> None:
        """The host changes model, system, tools, policy or window."""
        if what % 5 == 0:
            self.model = to % SAME_FAMILY
        elif what % 5 == 1:
            self.system = to % len(SYSTEMS)
        elif what % 5 == 2:
            self.tools = to % 4
        elif what % 5 == 3:
            self.policy = to % len(POLICIES)
        else:
            self.window = to % len(WINDOWS)

    def do_switch(self, to: int = 0, window: int = 0, output: int = 0) -> None:
        """The session goes on with a model of any family, and with its window, or one nobody knows."""
        old = self.model
        self.model = to % len(signing.MODELS[self.codec])
        self.window, self.output = window % len(WINDOWS), output % len(OUTPUTS)
        self.counts["families switched"] += max(old, 1) != max(self.model, 1)

    def do_jump(self, far: int = 0, back: bool = False, wall: int = 0) -> None:
        """The host's clock leaps, and (``wall`` 1) the store's with it, or (2) the store's alone."""
        by = JUMPS[far % len(JUMPS)] * (-1 if back else 1)
        self.now = max(self.now + (by if wall % 3 < 2 else 0), 1_000)
        self.wall = max(self.wall + (by if wall % 3 else 0), 1_000)

    def do_crash(self, snapshot: bool = False) -> None:
        """LAW-1: the process dies; the next one begins from the log, or from a snapshot taken now or earlier."""
        if snapshot:
            self.do_snapshot()
        if self.folder:
            self.log.close()
            self.log = Watched(open_log(self.url))
            self.conflicts = 0
        self.work = None
        self._orphan()
        self.engines = [self._engine(), self._engine()]

    def _orphan(self) -> None:
        """Leave what went out unrecorded behind: only the process that sent it, and its host, know of it."""
        if self.owed is not None:
            self.orphaned, self.last = True, None

    def do_snapshot(self) -> None:
        """Both folds are kept, whatever their age."""
        core = self.session().core
        core.hot()
        if core.hot().state.codec:
            with lowered(keeping, "SNAPSHOT_EVERY", 0):
                core.snapshot()

    def do_race(self) -> None:
        """Another process that knows the session as it was goes on with it."""
        self.session(1).core.hot()
        self._orphan()
        self.engines.reverse()

    def do_intrude(self, what: int = 0) -> None:
        """Another process appends between the decision and the append of the next call."""

        def intruder() -> None:
            other = self.session(1)
            if what % 4 == 0:
                other.flush()
                self.flushed = True
            elif what % 4 == 1:
                other.report_cache_loss("elsewhere")
                self.lost = True
            elif what % 4 == 2:
                if self.last is None:
                    return
                foldlog.Request(other, self.last._produced, 0, True).report_usage(input=200, now=self.now / 1000)
                self.totals.append(200)
            else:
                self._intruding(other)

        self.log.before, self.log.whole = intruder, what % 4 == 3

    def _intruding(self, other: foldlog.Session) -> None:
        self.interloped = True
        items = self.flat()
        try:
            request = other.prepare(
                self.handed(items), system=self.system_now(), tools=self.tools_now(), now=self.now / 1000
            )
        except foldlog.Refused:
            self._refused(items, other)
            return
        self.see(request, other, items)

    def do_fault(self, where: int = 0) -> None:
        """The store fails at the next append: before it, or with the acknowledgement lost."""
        self.log.fault = ("busy", "fails", "lost", "unclear")[where % 4]

    def do_fork(self, at: int = 0) -> None:
        """The session is forked, and the host goes on in the fork."""
        state = self.hot().state
        if (
            self.owed is not None
            or self.head is None
            or self.forks > 2
            or not self._current(self.flat())
            or self.log.fault
            or self.log.before
        ):
            return
        self.forks += 1
        keep = len(self.rounds) if at % 3 == 0 else 1 + at % len(self.rounds)
        end = len(self.flat(self.rounds[:keep]))
        handle = state.path[end - 1]
        old, self.id = self.session(), f"s{self.forks}"
        parent_items = self.head
        told = self.told[old.id] if self.told.get(old.id) else Told()
        old.fork(self.id, handle if keep < len(self.rounds) or at % 2 else None)
        forked = next(iter(self.log.read(f"session/api/{self.id}"))).event
        told.read(self.log.inner, f"session/api/{old.id}", forked.version)
        self.told[self.id] = told.fork(handle)
        self.done.append(old.id)
        self.rounds = self.rounds[:keep]
        self.side = None
        self.reopened = self.lost = self.flushed = False
        self.totals = []
        self.last = None
        self.edits.append("fork")
        self.counts["forks"] += 1
        assert parent_items is self.head

    def do_bad(self, what: int = 0) -> None:
        """PROP-11: what cannot be used is refused, and leaves everything as it was."""
        good = self.handed(self.flat())
        bad: list[Any] = [
            {"role": 5 if self.codec in ("openai-responses", "pi") else "nobody", "content": "x"},
            {"role": "user"},
            b"{",
            b"[1]",
            {"role": "user", "content": [{"type": "text"}]},
            {"role": "user", "content": 5},
            7,
            {"role": "user", "content": object()},
        ]
        orphan = {
            "anthropic": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "none", "content": "x"}]},
            "openai-chat": {"role": "tool", "tool_call_id": "none", "content": "x"},
            "openai-responses": {"type": "function_call_output", "call_id": "none", "output": "x"},
            "pi": {"role": "toolResult", "toolCallId": "none", "toolName": "bash", "content": [], "isError": False},
        }[self.codec]
        calls: list[Callable[[], Any]] = [
            lambda: self.session().prepare([*good, ([*bad, orphan])[what // 6 % 9]], now=self.now / 1000),
            lambda: self.session().prepare([]),
            lambda: self.session().prepare(good, now=float("nan")),
            lambda: self.session().advance((), [(10**6, good[0])]),
            lambda: self.session().advance((), (), ["nothing"]),
            lambda: self.session().expand(10**6),
        ]
        self.fails(calls[what % 6], foldlog.InputError)


@contextlib.contextmanager
def lowered(module: Any, name: str, value: Any) -> Iterator[None]:
    """Set a module's constant for a moment."""
    old = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, old)

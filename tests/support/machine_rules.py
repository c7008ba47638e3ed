"""The steps a host, a provider and several processes may take, as Hypothesis draws them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from support.machine import Machine
from support.machine_steps import WINDOWS

STEPS = 36
TOTAL: Counter[str] = Counter()
FAILED: list[dict[str, Any]] = []
"""The steps of the newest run that failed."""

SMALL = st.integers(0, 5)
PLACE = st.integers(0, 60)
DOOR = st.integers(0, 2)
BODY = st.integers(0, 10)


class FoldlogMachine(RuleBasedStateMachine):
    """Draws steps, records them, and lets the interpreter run them."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[dict[str, Any]] = []
        self.machine: Machine | None = None
        self.broken = False

    def do(self, op: str, **given: Any) -> None:
        self.steps.append({"op": op, **given})
        assert self.machine is not None
        try:
            self.machine.run(self.steps[-1])
        except BaseException:
            FAILED[:] = self.steps
            self.broken = True
            raise

    @initialize(
        codec=st.sampled_from(("anthropic", "anthropic", "anthropic", "openai-chat", "pi", "openai-responses")),
        primary=st.integers(0, 3),
        reduce=st.integers(0, 4),
        ids=st.booleans(),
        sqlite=st.integers(0, 15),
        window=st.integers(0, 3),
        policy=st.integers(0, 4),
        history=st.sampled_from((0, 1, 1, 1, 2, 3)),
        model=st.sampled_from((0, 2, 2, 3)),
        ports=st.booleans(),
    )
    def open(
        self,
        codec: str,
        primary: int,
        reduce: int,
        ids: bool,
        sqlite: int,
        window: int,
        policy: int,
        history: int,
        model: int,
        ports: bool,
    ) -> None:
        given = {
            "codec": codec,
            "mode": "subagent" if primary == 3 else "primary",
            "reduce": reduce < 4,
            "ids": ids,
            "sqlite": sqlite == 15,
            "window": window,
            "policy": policy,
            "history": history,
            "model": model,
            "ports": ports,
        }
        self.steps.append({"op": "open", **given})
        self.machine = Machine(**given)

    @rule(say=BODY, calls=st.integers(0, 3), out=BODY, door=DOOR, odd=st.integers(0, 63))
    def round(self, say: int, calls: int, out: int, door: int, odd: int) -> None:
        self.do(
            "round",
            say=say,
            calls=calls,
            out=out,
            door=door,
            think=(0, 0, 2 if odd & 8 else 0, 1)[odd % 4],
            prefix=odd // 16,
            media=int(odd % 8 == 5),
            extra=odd % 3,
            big=odd % 5 == 2,
            twin=odd % 7 == 3,
        )

    @rule(out=BODY, door=st.integers(0, 1), think=st.integers(0, 2))
    def tool_round(self, out: int, door: int, think: int) -> None:
        self.do("round", say=1, calls=2, out=out, door=door, extra=0, big=out % 2 == 1, think=think)

    @rule(percent=st.sampled_from((88, 97)), calls=st.integers(3, 9), again=st.booleans())
    def heavy(self, percent: int, calls: int, again: bool) -> None:
        """Much output, and a window nearly full of it."""
        self.do("round", say=1, calls=calls, out=8, door=1, extra=0)
        self.do("usage", percent=percent)
        self.do("round", say=1, calls=calls, out=7, door=1, extra=0)
        if again:
            self.do("round", say=1, calls=calls, out=8, door=0, extra=0)

    @rule(at=SMALL, then=st.integers(0, 8), calls=st.integers(0, 2), out=BODY, twice=st.booleans())
    def ponder(self, at: int, then: int, calls: int, out: int, twice: bool) -> None:
        """The model thinks over some rounds; something changes what stands before that; it thinks again."""
        if then % 2:
            self.do("switch", to=2, window=1)  # a bound one, where the wire has any
        for late in range(1, 3 + twice):
            self.do("round", say=1, calls=calls, out=out, think=late, door=0)
        if then == 0:
            self.do("drop", at=at, count=5, what=0)
            self.do("flush")
        elif then == 1:
            self.do("revise", at=at, kind=1, body=out, door=0)
        elif then == 2:
            self.do("insert", at=at, calls=0, door=0)
        elif then == 3:
            self.do("remove", at=at, count=0, door=0)
        elif then == 4:
            self.do("begin", at=at)
            self.do("end", pieces=1)
            self.do("loss")
        elif then == 5:
            self.do("drop", at=at, count=5, what=0)
            self.do("usage", percent=88)
        elif then == 6:
            self.do("outage", rounds=at % 2, say=1, calls=calls, think=1, then=at)
        elif then == 7:
            self.do("change", what=1, to=at)
        self.do("round", say=1, calls=1, out=out, think=1, door=0)

    @rule(steps=st.integers(0, 124), error=st.integers(0, 5), then=st.integers(0, 4), out=BODY)
    def plan(self, steps: int, error: int, then: int, out: int) -> None:
        """The agent writes a to-do list, perhaps another behind it; a summary may take them out."""
        for more in range(1 + then % 2):
            self.do("plan", steps=steps + 6 * more, error=not error, door=then % 2)
        if then > 1:
            self.do("round", say=1, calls=2, out=out, door=1)
            self.do("begin", at=-1 - out % 3)
            self.do("end", pieces=1)
            self.do("loss")
            self.do("round", say=1, calls=then % 2, out=out, door=0)

    @rule(count=st.integers(0, 3), words=st.integers(0, 2), again=st.booleans())
    def crowd(self, count: int, words: int, again: bool) -> None:
        self.do("crowd", count=count, words=words, again=again)

    @rule(rounds=st.integers(0, 2), say=BODY, calls=st.integers(0, 2), think=st.integers(0, 1), then=st.integers(0, 5))
    def outage(self, rounds: int, say: int, calls: int, think: int, then: int) -> None:
        self.do("outage", rounds=rounds, say=say, calls=calls, think=think, then=then)

    @rule(to=st.integers(0, 4), window=st.integers(0, 3), output=st.integers(0, 2))
    def switch(self, to: int, window: int, output: int) -> None:
        self.do("switch", to=to, window=window, output=output)

    @rule(far=st.integers(0, 2), back=st.booleans(), wall=st.integers(0, 2))
    def jump(self, far: int, back: bool, wall: int) -> None:
        self.do("jump", far=far, back=back, wall=wall)

    @rule(form=st.integers(0, 255), twice=st.booleans())
    def send(self, form: int, twice: bool) -> None:
        self.do("send", form=form, twice=twice)

    @rule(at=PLACE, kind=st.integers(0, 2), body=BODY, door=DOOR)
    def revise(self, at: int, kind: int, body: int, door: int) -> None:
        self.do("revise", at=at, kind=kind, body=body, door=door)

    @rule(at=PLACE, count=st.integers(0, 1), door=DOOR)
    def remove(self, at: int, count: int, door: int) -> None:
        self.do("remove", at=at, count=count, door=door)

    @rule(at=PLACE, calls=st.integers(0, 1), door=st.sampled_from((0, 2)))
    def insert(self, at: int, calls: int, door: int) -> None:
        self.do("insert", at=at, calls=calls, door=door)

    @rule(at=PLACE, calls=st.integers(0, 1), twice=st.booleans())
    def side(self, at: int, calls: int, twice: bool) -> None:
        self.do("side", at=at, calls=calls, twice=twice)

    @rule(calls=st.integers(0, 1))
    def adopt(self, calls: int) -> None:
        self.do("adopt", calls=calls)

    @rule(at=PLACE, calls=st.integers(0, 1), inside=st.booleans())
    def rewind(self, at: int, calls: int, inside: bool) -> None:
        self.do("rewind", at=at, calls=calls, inside=inside)

    @rule(percent=st.sampled_from((1, 30, 45, 66, 88, 97, 120)), missing=st.sampled_from((0, 0, 0, 1, 3, 7, 15)))
    def usage(self, percent: int, missing: int) -> None:
        self.do("usage", percent=percent, missing=missing)

    @rule(kind=st.integers(0, 4), limit=st.integers(0, 4))
    def fail(self, kind: int, limit: int) -> None:
        self.do("fail", kind=kind, limit=limit)

    @rule(seconds=st.sampled_from((30, 100, 400, 4000)), back=st.booleans())
    def idle(self, seconds: int, back: bool) -> None:
        self.do("idle", seconds=seconds, back=back)

    @rule(at=PLACE, count=st.integers(0, 11), what=st.sampled_from((0, 0, 0, 0, 1, 2)))
    def drop(self, at: int, count: int, what: int) -> None:
        self.do("drop", at=at, count=count, what=what)

    @rule(at=PLACE, count=st.integers(0, 11), percent=st.sampled_from((66, 88)), what=st.sampled_from((0, 0, 3)))
    def drop_under_pressure(self, at: int, count: int, percent: int, what: int) -> None:
        self.do("drop", at=at, count=count, what=what)
        self.do("usage", percent=percent)

    @rule(
        at=PLACE, count=st.integers(0, 5), percent=st.sampled_from((1, 1, 88)), what=st.sampled_from((0, 3)), out=BODY
    )
    def work(self, at: int, count: int, percent: int, what: int, out: int) -> None:
        self.do("round", say=1, calls=2, out=out, door=1)
        self.do("drop", at=at, count=count, what=what)
        self.do("usage", percent=percent)
        self.do("round", say=1, calls=1, out=out, door=0)

    @rule(at=PLACE)
    def begin(self, at: int) -> None:
        self.do("begin", at=at)

    @rule(pieces=st.integers(1, 3), outcome=st.sampled_from((0, 0, 0, 1, 2, 3)))
    def end(self, pieces: int, outcome: int) -> None:
        self.do("end", pieces=pieces, outcome=outcome)

    @rule(at=PLACE, place=SMALL, what=st.integers(0, 5), out=BODY)
    def changed_meanwhile(self, at: int, place: int, what: int, out: int) -> None:
        """The host changes old messages while they are summarised, or behind a summary."""
        self.do("begin", at=at)
        if what in (0, 4, 5):
            self.do("end")
        if what > 3:
            self.do("loss")
            self.do("round", say=1, calls=1, out=out, door=0)
        if what < 2:
            self.do("revise", at=place, kind=1, body=out, door=0)
        elif what % 2 == 0:
            self.do("remove", at=place, count=0, door=0)
        else:
            self.do("insert", at=place, calls=0, door=0)
        self.do("end", pieces=1 + what % 2)

    @rule(at=PLACE)
    def lapse(self, at: int) -> None:
        self.do("lapse", at=at)

    @rule(at=PLACE, pieces=st.integers(1, 3), then=st.integers(0, 3), out=BODY)
    def summary(self, at: int, pieces: int, then: int, out: int) -> None:
        """A summary, and what makes it show: pressure, a cache loss, nothing."""
        self.do("round", say=1, calls=1, out=out, door=0)
        self.do("begin", at=at)
        self.do("end", pieces=pieces)
        if then in (1, 2):
            assert self.machine is not None
            self.do("usage", percent=66 if WINDOWS[self.machine.window] else 430)  # 67% of the window assumed then
        elif then == 3:
            self.do("loss")
        self.do("round", say=1, calls=then % 2, out=out, door=0)

    @rule()
    def flush(self) -> None:
        self.do("flush")

    @rule()
    def loss(self) -> None:
        self.do("loss")

    @rule(what=st.integers(0, 4), to=st.integers(0, 4))
    def change(self, what: int, to: int) -> None:
        self.do("change", what=what, to=to)

    @rule(snapshot=st.booleans())
    def crash(self, snapshot: bool) -> None:
        self.do("crash", snapshot=snapshot)

    @rule()
    def snapshot(self) -> None:
        self.do("snapshot")

    @rule()
    def race(self) -> None:
        self.do("race")

    @rule(what=st.integers(0, 3))
    def intrude(self, what: int) -> None:
        self.do("intrude", what=what)

    @rule(where=st.integers(0, 3))
    def fault(self, where: int) -> None:
        self.do("fault", where=where)

    @rule(at=SMALL)
    def fork(self, at: int) -> None:
        self.do("fork", at=at)

    @rule(what=st.integers(0, 53))
    def bad(self, what: int) -> None:
        self.do("bad", what=what)

    def teardown(self) -> None:
        machine = self.machine
        if machine is None:
            return
        try:
            if not self.broken:
                machine.finish()
        except BaseException:
            FAILED[:] = self.steps
            raise
        finally:
            machine.close()
        TOTAL.update(machine.counts)
        TOTAL["examples"] += 1


def configured(examples: int, fresh: bool = False) -> settings:
    """Return the settings of a run. ``machine.shrunk`` makes it shorter; Hypothesis would take minutes.

    The same examples each time, so that what turns red is the change's doing; ``fresh``: new ones (`make soak`).
    """
    return settings(
        derandomize=not fresh,
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.normal,
        phases=(Phase.generate,),
    )

"""A played session beside what its host would have done without foldlog: the arms of a bill (conventions 26, 27)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ...projections.wire import CURRENT, wire
from ..billing.baselines import Raw, compacting_once, doing_nothing
from ..billing.bill import Bill, bill
from ..billing.profiles import PROFILES, Profile
from ..billing.records import Block, Record, stand_in
from ..traces.model import Trace

OURS = "foldlog"
NOTHING = "doing nothing"
ONCE = "compacting once"


class Arms(msgspec.Struct, frozen=True):
    """Wire logs and bills by arm, ours first. ``window`` in tokens, 0 = unknown."""

    profile: Profile
    window: int
    logs: dict[str, list[Record]]
    bills: dict[str, Bill]

    def ratio(self, arm: str) -> float:
        """Return our cost in units of that arm's; 0 where it cost nothing."""
        other = self.bills[arm].cost
        return self.bills[OURS].cost / other if other else 0.0


def profile_for(model: str) -> Profile:
    """Return the profile of the provider a model's name points to, Anthropic's where it points to none."""
    name = model.lower()
    if "deepseek" in name:
        return PROFILES["deepseek"]
    plain = name.rsplit("/", 1)[-1]
    return PROFILES["openai" if plain.startswith(("gpt", "chatgpt", "codex", "o1", "o3", "o4")) else "anthropic-5m"]


def raw_requests(trace: Trace, count: Callable[[str], int]) -> list[Raw]:
    """Return the requests of a trace as its host would have sent them; ``count``: tokens of a text."""
    form = wire(CURRENT)
    known: dict[bytes, tuple[Block, ...]] = {}
    sent: tuple[Block, ...] = ()
    out: list[Raw] = []
    at = 0
    for step in trace.steps:
        for raw in step.messages:
            blocks = known.get(raw)
            if blocks is None:
                blocks = known[raw] = blocks_of(form, trace.codec, raw, count)
            sent += blocks
        at = max(at, step.at)
        output = None if step.usage is None or step.usage.output < 0 else step.usage.output
        out.append(Raw(at, step.model or trace.model, sent, output))
    return out


def front(trace: Trace, count: Callable[[str], int], system_tokens: int = 0) -> tuple[Block, ...]:
    """Return what stands before the messages of a trace: the stand-in for what it lacks, its tools, its system."""
    form = wire(CURRENT)
    return (*stand_in(system_tokens), *regions(form, trace.codec, trace.tools or b"", trace.system or b"", count))


def regions(form: Any, codec: str, tools: bytes, system: bytes, count: Callable[[str], int]) -> tuple[Block, ...]:
    """Return the blocks of tools and system, in wire order."""
    own = (*form.tools_blocks(codec, tools), *form.system_blocks(codec, system))
    return tuple((block.digest.hex()[:16], block.size, count(block.form.decode("utf-8", "replace"))) for block in own)


def compared(
    trace: Trace,
    records: Sequence[Record],
    profile: Profile,
    count: Callable[[str], int],
    window: int,
    system_tokens: int = 0,
) -> Arms:
    """Return the arms of a played trace under one profile. ``records``: ours, as played on ``window``.

    Compacting once needs a window that is known; else that arm is left out.
    """
    raws, lead = raw_requests(trace, count), front(trace, count, system_tokens)
    logs = {OURS: list(records), NOTHING: doing_nothing(trace.name, raws, window=window, front=lead)}
    if window:
        logs[ONCE] = compacting_once(trace.name, raws, window=window, front=lead)
    return Arms(profile, window, logs, {arm: bill(log, profile) for arm, log in logs.items()})


def blocks_of(form: Any, codec: str, raw: bytes, count: Callable[[str], int]) -> tuple[Block, ...]:
    """Return the blocks of one message."""
    blocks = form.blocks(codec, raw)
    parts = form.read(codec, raw, count).message.parts
    same = len(parts) == len(blocks)
    return tuple(
        (
            block.digest.hex()[:16],
            block.size,
            parts[index].tokens if same else count(block.form.decode("utf-8", "replace")),
        )
        for index, block in enumerate(blocks)
    )

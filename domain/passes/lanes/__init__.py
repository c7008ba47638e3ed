"""The lanes of a pass: what each could do now, in one order (``design.md`` 5).

A lane is a module with one pure function ``plan(ask) -> Work``, and ``wants(ask)`` where it has to read contents first;
adding a lane is adding a module and a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from ...edits import Edit, SetBody, SetShape
from ...errors import PassFailed
from . import (
    age,
    dedup,
    emergency,
    followers,
    images,
    injected,
    inline,
    mended,
    queued,
    reasoning,
    smart,
    stale,
    terse,
    todo,
)
from .shape import Ask, Part, Work


class Lane(NamedTuple):
    """A row of the table: what a lane is called, what it does, and what it has to read for it."""

    name: str
    plan: Callable[[Ask], Work]
    wants: Callable[[Ask], frozenset[Part]] | None = None


LANES = (
    Lane("queued", queued.plan),
    Lane("mended", mended.plan),
    Lane("emergency", emergency.plan),
    Lane("injected", injected.plan, injected.wants),
    Lane("dedup", dedup.plan, dedup.wants),
    Lane("inline", inline.plan, inline.wants),
    Lane("terse", terse.plan, terse.wants),
    Lane("reasoning", reasoning.budget),
    Lane("unsigned", reasoning.unsigned),
    Lane("age", age.plan),
    Lane("smart", smart.plan, smart.wants),
    Lane("stale_reduce", stale.reduces),
    Lane("images", images.plan),
    Lane("pictures", images.shed),
    Lane("hollow", stale.hollow),
    Lane("followers", followers.plan),
    Lane("todo", todo.plan, todo.wants),
    Lane(reasoning.COMPANIONS, reasoning.companions),
)
"""In the order of ``transform.md`` 0: each lane sees what those before it do. The last ones follow from the others."""


def wants(ask: Ask) -> frozenset[Part]:
    """Return the contents that lanes still have to read; asked again once they are known. Raises ``PassFailed``."""
    found: set[Part] = set()
    for lane in LANES:
        if lane.wants is not None:
            try:
                found |= lane.wants(ask)
            except Exception as error:
                raise PassFailed(f"lane {lane.name}", error) from error
    return frozenset(found - ask.facts.keys())


def run(ask: Ask) -> tuple[Work, ...]:
    """Return what every lane that has work can do, in order. Raises ``PassFailed`` where one breaks (FAIL-2)."""
    found: list[Work] = []
    for lane in LANES:
        try:
            work = _within(ask, lane.plan(ask))
        except Exception as error:
            raise PassFailed(f"lane {lane.name}", error) from error
        if work.items:
            lowest = min(item.index for item in work.items)
            found.append(work)
            ask = msgspec.structs.replace(
                ask,
                taken=ask.taken | {item.tag for item in work.items if item.tag},
                freed=ask.freed + sum(item.frees for item in work.items),
                busy=True,
                net=ask.net + sum(item.net for item in work.items),
                absent=ask.absent | _absent(ask, work),
                first=lowest if ask.first is None else min(lowest, ask.first),
                thinned={**ask.thinned, **{(m, p): n for item in work.items for m, p, n in item.spares}},
            )
    return tuple(found)


def _within(ask: Ask, work: Work) -> Work:
    """Leave out that a call before all that may change keeps its arguments: it does so by itself."""
    if ask.begin <= ask.start:
        return work
    items = (msgspec.structs.replace(item, edits=tuple(_changing(ask, item.edits))) for item in work.items)
    return msgspec.structs.replace(work, items=tuple(items))


def _changing(ask: Ask, edits: tuple[Edit, ...]) -> Iterator[Edit]:
    for edit in edits:
        kept = isinstance(edit, SetBody) and edit.kind == "skeleton"
        if not kept or ask.scene.index(edit.m) >= ask.begin:
            yield edit


def _absent(ask: Ask, work: Work) -> frozenset[Part]:
    found: set[Part] = set()
    for edit in (edit for item in work.items for edit in item.edits):
        if isinstance(edit, SetBody) and edit.kind == "absent":
            found.add((edit.m, edit.p))
        elif isinstance(edit, SetShape) and edit.shape == "absent":
            found.update((edit.m, p) for p in range(len(ask.scene.message(edit.m).parts)))
    return frozenset(found)

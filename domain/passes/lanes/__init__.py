"""The lanes of a pass: what each could do now, in one order (``design.md`` 5).

A lane is a module with one pure function ``plan(ask) -> Work``; adding a lane is adding a module and a row.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from . import age, emergency, queued
from .shape import Ask, Work

LANES: tuple[Callable[[Ask], Work], ...] = (
    queued.plan,
    emergency.plan,
    age.plan,
)
"""In the order of ``transform.md`` 0: each lane sees what those before it take out."""


def run(ask: Ask) -> tuple[Work, ...]:
    """Return what every lane that has work can do, in order."""
    found: list[Work] = []
    for plan in LANES:
        work = plan(ask)
        if work.items:
            found.append(work)
            ask = msgspec.structs.replace(
                ask,
                taken=ask.taken | {item.tag for item in work.items if item.tag},
                freed=ask.freed + sum(item.frees for item in work.items),
            )
    return tuple(found)

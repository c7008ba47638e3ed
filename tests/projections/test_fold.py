"""Snapshots: one whose layout is another's is never read."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from foldlog.domain import events as ev
from foldlog.domain.edits import Insert, MessageSlots, PartSlots
from foldlog.domain.state import State
from foldlog.projections import fold
from foldlog.projections.view import View


def reached(kind: Any, found: set[type]) -> set[type]:
    for inner in get_args(kind):
        reached(inner, found)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in found:
        found.add(kind)
        for field in msgspec.structs.fields(kind):
            reached(field.type, found)
    return found


@pytest.mark.rule("LAW-1")
def test_the_name_of_a_snapshot_covers_all_that_it_holds():
    held = reached(State, set()) | reached(View, set())
    assert held == {*fold._STORED, MessageSlots, PartSlots, Insert, ev.Adopted}

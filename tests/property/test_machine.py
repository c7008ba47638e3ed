"""The main proof: a host, a provider and several processes do what they like, and every request keeps every property.

Checked after each step (``support.machine``, ``machine_judge``, ``machine_checks`` name the place of each). `make soak`
plays it for a given time (``support.machine_soak``).
"""

from __future__ import annotations

import json

import pytest
from hypothesis.stateful import run_state_machine_as_test

from support.machine import shrunk
from support.machine_rules import FAILED, TOTAL, FoldlogMachine, configured

EXAMPLES = 500
SHRINKING = 30.0
"""Seconds a failing run is made shorter for."""
FLOORS = {
    "rebuilds": 30,
    "conflicts": 30,
    "rewind": 30,
    "aside": 30,
    "crash": 30,
    "defer": 30,
    "soft+": 30,
    "hard": 30,
    "publications": 30,
    "folds": 30,
    "soft": 10,
    "signatures refused": 15,
    "recovered thinking": 10,
    "bound thoughts": 100,
    "pictures refused": 50,
    "pictures shed": 50,
    "last good": 50,
    "last good recorded": 20,
    "missed": 20,
    "families switched": 50,
    "jump": 30,
    "emergency batches": 20,
    "hints": 20,
    "notes told": 10,
    "lists said again": 20,
}
"""``folds``: hard passes after the first; ``soft``: passes that rendered m[1] anew; ``signatures refused``: reasoning
the provider did not take, for a cause of the host's; ``missed``: requests found in the host's messages alone.
"""


@pytest.mark.slow
def test_every_request_keeps_every_property(capsys):
    """PROP-1, PROP-2, PROP-3, PROP-4, PROP-5, PROP-7, PROP-8, PROP-9, PROP-11, LAW-1, LAW-2, LAW-3, LAW-4, LAW-5;
    THINK-1, THINK-4, THINK-5, IMAGE-2, EMERG-2, LAST-1, LAST-2, LAST-3, LAST-5, WINDOW-1, SAY-6;
    TODO-1, TODO-2, TODO-3;
    INV-1, INV-2, INV-3, INV-4, INV-5, INV-6, INV-7, INV-8 of history.
    """
    TOTAL.clear()
    try:
        run_state_machine_as_test(FoldlogMachine, settings=configured(EXAMPLES))
    except Exception as error:
        steps = shrunk(list(FAILED), SHRINKING)
        error.add_note("the run, for tests/property/corpus:\n" + ",\n".join(json.dumps(step) for step in steps))
        raise
    with capsys.disabled():
        print(
            f"\nstate machine, {TOTAL['examples']} examples: " + ", ".join(f"{k} {v}" for k, v in sorted(TOTAL.items()))
        )
    below = {name: TOTAL[name] for name, floor in FLOORS.items() if TOTAL[name] < floor}
    assert not below, f"too few of {below}, at least {FLOORS} are needed for the run to mean something"

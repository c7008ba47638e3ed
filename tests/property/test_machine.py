"""The main proof: a host, a provider and several processes do what they like, and every request keeps every property.

Checked after each step (``support.machine``, ``machine_judge``, ``machine_checks`` name the place of each). The length
comes from ``FOLDLOG_EXAMPLES`` (`make soak`).
"""

from __future__ import annotations

import json
import os

import pytest
from hypothesis.stateful import run_state_machine_as_test

from support.machine import shrunk
from support.machine_rules import FAILED, TOTAL, FoldlogMachine, configured

EXAMPLES = int(os.environ.get("FOLDLOG_EXAMPLES", "500"))
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
}
"""``folds``: hard passes after the first; ``soft``: passes that rendered m[1] anew."""


@pytest.mark.slow
@pytest.mark.soak
def test_every_request_keeps_every_property(capsys):
    """PROP-1, PROP-2, PROP-3, PROP-4, PROP-5, PROP-7, PROP-8, PROP-9, PROP-11, LAW-1, LAW-2, LAW-3, LAW-4, LAW-5;
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

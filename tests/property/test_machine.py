"""The main proof: a host, a provider and several processes do what they like, and every request keeps every property.

Checked after each step (``support.machine``, ``machine_judge``, ``machine_checks`` name the place of each). The length
comes from ``FOLDLOG_EXAMPLES`` (`make soak`).
"""

from __future__ import annotations

import os

import pytest
from hypothesis.stateful import run_state_machine_as_test

from support.machine_rules import TOTAL, FoldlogMachine, configured

EXAMPLES = int(os.environ.get("FOLDLOG_EXAMPLES", "200"))
FLOORS = {"rebuilds": 30, "conflicts": 30, "rewind": 30, "aside": 30, "crash": 30, "defer": 30, "soft+": 30, "hard": 30}


@pytest.mark.slow
@pytest.mark.soak
def test_every_request_keeps_every_property(capsys):
    """PROP-1, PROP-2, PROP-3, PROP-4, PROP-5, PROP-7, PROP-8, PROP-9, PROP-11, LAW-1, LAW-2, LAW-3, LAW-4, LAW-5."""
    TOTAL.clear()
    run_state_machine_as_test(FoldlogMachine, settings=configured(EXAMPLES))
    with capsys.disabled():
        print(
            f"\nstate machine, {TOTAL['examples']} examples: " + ", ".join(f"{k} {v}" for k, v in sorted(TOTAL.items()))
        )
    below = {name: TOTAL[name] for name, floor in FLOORS.items() if TOTAL[name] < floor}
    assert not below, f"too few of {below}, at least {FLOORS} are needed for the run to mean something"

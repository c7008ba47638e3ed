"""Runs that once failed, shrunk, replayed step by step. Each file says what was wrong and holds its steps.

A new one: take the list the state machine prints with a failure, and store it here under the name of the fault.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.machine import play

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_a_run_that_failed_once_is_good(path: Path):
    """PROP-1, PROP-2, PROP-3, PROP-4, PROP-9, LAW-2, LAW-5: the rule each file names."""
    story = json.loads(path.read_text(encoding="utf-8"))
    assert story["law"]
    assert story["was"]
    counts = play(story["steps"])
    assert counts["replays"]
    assert counts["audited"]


def test_the_corpus_is_there():
    """An empty folder would prove nothing."""
    assert len(CORPUS) >= 8

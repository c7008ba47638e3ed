"""`make soak` itself: it finds what is broken, makes it shorter, and stores what `make test` then replays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from foldlog.domain.passes import schedule
from support import machine_soak as soak
from support.machine import fault, play


@pytest.mark.slow
def test_what_a_soak_finds_is_stored_shrunk_and_fails_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """LAW-4: the queue lands whenever it holds something, as if the window were full."""
    with monkeypatch.context() as broken:
        broken.setattr(schedule, "schedule", lambda *_: "pressure")
        story = soak.round_of(200, seconds=5.0)
        assert story is not None
        assert story["law"] in story["was"]
        path = soak.store(story, tmp_path)
        stored = json.loads(path.read_text(encoding="utf-8"))
        assert stored == story
        assert fault(stored["steps"])
    assert play(stored["steps"])["replays"]


def test_one_kind_of_failure_is_stored_once():
    stories = [{"was": f"LAW-4: pass {number} rebuilt for no cause (Decision({number}))"} for number in (3, 17)]
    assert soak.kind(stories[0]) == soak.kind(stories[1])
    assert soak.kind({"was": "PROP-2: ANT-6 at messages[3]"}) != soak.kind(stories[0])

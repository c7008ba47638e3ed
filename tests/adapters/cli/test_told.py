"""What foldlog told the agent, and why it did not, in the commands that look (SAY-7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import foldlog
from support import ports
from support.program import ok, value
from support.talk import Chat, assistant, use, user


@pytest.fixture
def db(tmp_path: Path) -> str:
    """Return a store of one session in which each word was said, and two were not."""
    url = f"sqlite:///{tmp_path / 'log.db'}"
    searches = ports.Search(ports.found())
    engine = foldlog.Engine.open(url, summarizer=None, notes=ports.Notes(2), search=searches)
    host = Chat(engine, "s", context_limit=1_000_000)
    use(host.say(user("start")), 100)
    host.say(assistant("committed 1a2b3c4"), user("fine"))
    host.turn("please look into the parser", wait=900)
    host.say(assistant("ok"), user("fine"))
    searches.says = ports.broken()
    host.turn("and then look into the tokenizer")
    engine.close()
    return url


@pytest.mark.rule("SAY-7", "CLI-22")
def test_passes_tell_what_was_said_and_why_something_was_not(db: str):
    rows: list[Any] = value("passes", "s", db=db)
    assert rows[2]["said"] == ["time", "hint", "note"]
    assert rows[2]["unsaid"] == []
    assert rows[1]["unsaid"] == [["hint", "too-short"]]
    assert rows[-1]["left_out"] == ["hint"]
    shown = " ".join(ok("passes", "s", db=db).split())
    assert "said: time, hint, note" in shown
    assert "not said: hint (too-short)" in shown
    assert "left out, it broke: hint" in shown


@pytest.mark.rule("SAY-7")
def test_a_part_tells_what_stands_behind_it(db: str):
    told = ok("why", "s", "5", db=db)
    assert "said behind it: a hint (" in told
    assert "said behind it: a note (" in told
    sent = ok("show", "s", "--pass", "3", db=db)
    assert "2 notes of yours wait" in sent
    assert value("status", "s", db=db)["reminder_due"] is False

"""Owners of leases: whether their process lives is known by the lock it holds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from foldlog.adapters import local, owners
from foldlog.adapters.owners import Owner, gone
from support.linked import runtime_folder

HOLDER = "from foldlog.adapters.owners import Owner; o = Owner(); o.claim(); print(o.name, flush=True); input()"


@pytest.fixture
def folder(monkeypatch):
    with runtime_folder(monkeypatch):
        yield local.runtime_folder()


def files(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("owner-*")]


@pytest.mark.rule("HIST-30")
def test_a_killed_process_is_gone_and_one_that_runs_is_not(folder):
    child = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    name = child.stdout.readline().strip()
    assert not gone(name)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert gone(name)
    owners.forget(name)
    assert files(folder) == []


@pytest.mark.rule("HIST-30")
def test_who_goes_with_work_undone_leaves_it_to_others(folder):
    idle, busy = Owner(), Owner()
    for one in (idle, busy):
        one.claim()
        one.claim()
        assert not gone(one.name)
    idle.close(working=False)
    busy.close(working=True)
    busy.close(working=True)
    assert (gone(idle.name), gone(busy.name)) == (False, True)
    assert files(folder) == [f"owner-{busy.name}.lock"]


@pytest.mark.rule("HIST-30")
@pytest.mark.parametrize("name", ["never-seen", "", "../link", "a/b", "x" * 65])
def test_who_is_not_known_here_may_live_elsewhere(folder, name):
    (folder / "link.lock").touch()
    assert not gone(name)


@pytest.mark.rule("HIST-30")
def test_without_a_folder_leases_end_by_their_time_alone(monkeypatch, tmp_path):
    open_to_all = tmp_path / "run"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(open_to_all))
    owner = Owner()
    owner.claim()
    assert not gone(owner.name)
    owner.close(working=True)


@pytest.mark.rule("HIST-30")
def test_who_gets_no_lock_is_not_taken_for_gone(folder, monkeypatch):
    owner = Owner()
    with monkeypatch.context() as patch:
        patch.setattr(local, "locked", lambda _: False)
        owner.claim()
    assert not gone(owner.name)
    owner.claim()
    assert files(folder) == [f"owner-{owner.name}.lock"]
    assert not gone(owner.name)
    owner.close(working=False)


@pytest.mark.rule("HIST-30")
def test_who_has_gone_holds_nothing_any_more(folder):
    """A look that was under way may still want to begin something."""
    idle, busy = Owner(), Owner()
    busy.claim()
    for one, working in ((idle, False), (busy, True)):
        one.close(working=working)
        one.claim()
    assert files(folder) == [f"owner-{busy.name}.lock"]
    assert gone(busy.name)


@pytest.mark.rule("HIST-30")
def test_what_old_processes_left_is_cleared_away(folder):
    left, held = Owner(), Owner()
    for one in (left, held):
        one.claim()
        os.utime(folder / f"owner-{one.name}.lock", (0, 0))
    left.close(working=True)
    new = Owner()
    new.claim()
    assert set(files(folder)) == {f"owner-{held.name}.lock", f"owner-{new.name}.lock"}
    held.close(working=False)
    new.close(working=False)

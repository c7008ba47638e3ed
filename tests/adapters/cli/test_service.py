"""The proxy as a service (specs/cli.md), with stand-ins for systemctl and launchctl, and real files."""

from __future__ import annotations

import os
import plistlib
import sys

import pytest

from foldlog.adapters import local
from foldlog.adapters.cli import edits, service
from foldlog.domain.errors import FoldlogError
from support.program import run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="systemd and launchd")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A home folder and a `systemctl` that writes down what it is told and does as told."""
    home, bin_ = tmp_path / "home", tmp_path / "bin"
    home.mkdir()
    bin_.mkdir()
    told = tmp_path / "told"
    code = tmp_path / "code"
    code.write_text("0")
    for name in ("systemctl", "launchctl"):
        stand_in = bin_ / name
        stand_in.write_text(f'#!/bin/sh\necho {name} "$@" >> "{told}"\nread code < "{code}"\nexit $code\n')
        stand_in.chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{bin_}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "FOLDLOG_CONFIG", "FOLDLOG_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(service, "PATIENCE", 0.0)

    class Machine:
        unit = home / ".config/systemd/user/foldlog.service"

        def calls(self):
            lines = told.read_text().splitlines() if told.exists() else []
            told.write_text("")
            return [line for line in lines if "show-environment" not in line]

        def breaks(self):
            code.write_text("1")

    made = Machine()
    made.home = home
    return made


def everything(folder):
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def listening(monkeypatch):
    """As if the proxy had come up at once."""
    monkeypatch.setattr(local, "proxies", lambda: [local.Run(4141, 1, "t", "0")])


@pytest.mark.rule("SERVICE-1", "SERVICE-2")
def test_enable_shows_and_writes_and_disable_undoes_it(machine, listening, monkeypatch):
    monkeypatch.setenv("FOLDLOG_DB", "sqlite:////data/with space/100%.db")
    before = everything(machine.home)
    shown = run("enable", "--yes")
    assert shown.exit_code == 0, shown.output
    assert "+ExecStart=" in shown.stdout
    assert "http://127.0.0.1:4141" in shown.stdout
    assert machine.calls() == [
        "systemctl --user daemon-reload",
        "systemctl --user enable --now foldlog.service",
    ]
    text = machine.unit.read_text()
    assert text.count("[") == 3
    assert " serve\n" in text
    assert 'Environment="FOLDLOG_DB=sqlite:////data/with space/100%%.db"\n' in text
    assert service.enabled()
    again = run("enable", "--yes")
    assert again.exit_code == 0
    assert "there already" in again.stdout
    assert run("restart").exit_code == 0
    assert machine.calls()[-1] == "systemctl --user restart foldlog.service"
    gone = run("disable", "--yes")
    assert gone.exit_code == 0, gone.output
    assert machine.calls() == ["systemctl --user disable --now foldlog.service", "systemctl --user daemon-reload"]
    assert everything(machine.home) == before
    assert not service.enabled()
    assert "nothing to undo" in run("disable", "--yes").stdout


@pytest.mark.rule("SERVICE-2")
def test_a_host_that_would_ask_nobody_is_named(machine, listening):
    assert run("enable", "--yes").exit_code == 0
    assert run("setup", "codex", "--yes").exit_code == 0
    gone = run("disable", "--yes")
    assert gone.exit_code == 0
    assert "foldlog setup codex --remove" in gone.stdout
    assert "claude" not in gone.stdout.splitlines()[-1]
    assert run("setup", "codex", "--remove").exit_code == 0
    assert not (machine.home / ".codex").exists()


@pytest.mark.rule("SERVICE-2")
def test_a_unit_the_person_changed_is_theirs(machine, listening):
    assert run("enable", "--yes").exit_code == 0
    machine.unit.write_text(machine.unit.read_text() + "# mine\n")
    result = run("disable", "--yes")
    assert result.exit_code == 1
    assert "by hand" in result.stderr
    assert machine.unit.exists()


@pytest.mark.rule("SERVICE-1")
def test_without_a_yes_nothing_happens(machine):
    before = everything(machine.home)
    result = run("enable")
    assert result.exit_code == 1
    assert "--yes" in result.stderr
    assert everything(machine.home) == before
    assert machine.calls() == []


@pytest.mark.rule("SERVICE-1")
def test_a_person_is_asked(machine, listening, monkeypatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(service.typer, "confirm", lambda question: True)
    service.confirm("Set it up?", yes=False)
    monkeypatch.setattr(service.typer, "confirm", lambda question: False)
    with pytest.raises(service.typer.Exit):
        service.confirm("Set it up?", yes=False)


@pytest.mark.rule("SERVICE-3")
def test_a_machine_without_user_services_is_told_what_to_do(machine, monkeypatch, tmp_path):
    before = everything(machine.home)
    for prepare in (machine.breaks, lambda: monkeypatch.setenv("PATH", str(tmp_path / "nothing"))):
        prepare()
        for command in (["enable", "--yes"], ["disable", "--yes"], ["restart"]):
            result = run(*command)
            assert result.exit_code == 1
            assert "foldlog run --" in result.stderr
    assert everything(machine.home) == before


@pytest.mark.rule("SERVICE-3")
def test_a_service_that_does_not_come_up_is_said(machine):
    result = run("enable", "--yes")
    assert result.exit_code == 1
    assert "systemctl --user status foldlog.service" in result.stderr


def test_restart_without_a_service(machine):
    result = run("restart")
    assert result.exit_code == 1
    assert "foldlog enable" in result.stderr


@pytest.mark.rule("SERVICE-1")
def test_launchd(machine, listening, monkeypatch):
    this = service.manager({"HOME": str(machine.home), "FOLDLOG_CONFIG": "/x y"}, "darwin")
    assert this.file == machine.home / "Library/LaunchAgents/dev.foldlog.proxy.plist"
    told = plistlib.loads(this.text.encode())
    assert told["ProgramArguments"][-1] == "serve"
    assert told["EnvironmentVariables"] == {"FOLDLOG_CONFIG": "/x y"}
    monkeypatch.setattr(service, "manager", lambda: this)
    assert run("enable", "--yes").exit_code == 0
    domain = f"gui/{os.getuid()}"
    loaded = [f"launchctl bootout {domain}/dev.foldlog.proxy", f"launchctl bootstrap {domain} {this.file}"]
    assert machine.calls() == loaded
    assert run("enable", "--yes").exit_code == 0
    assert machine.calls() == loaded
    assert run("disable", "--yes").exit_code == 0
    assert machine.calls() == [f"launchctl bootout {domain}/dev.foldlog.proxy"]
    assert not this.file.parent.exists()


def test_a_broken_record_changes_nothing(machine, listening):
    edits.record_path("service").parent.mkdir(parents=True)
    edits.record_path("service").write_text("{")
    with pytest.raises(FoldlogError):
        edits.recorded("service")
    before = everything(machine.home)
    assert run("enable", "--yes").exit_code == 1
    assert everything(machine.home) == before

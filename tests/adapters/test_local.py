"""Run files and the folder they lie in (specs/config.md)."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import warnings

import platformdirs
import pytest

from foldlog.adapters import local
from foldlog.domain.errors import FoldlogError, OptionError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes and owners are those of Unix")


@pytest.fixture(autouse=True)
def runtime(tmp_path, monkeypatch):
    folder = tmp_path / "run" / "foldlog"
    folder.parent.mkdir(mode=0o700)
    monkeypatch.setattr(platformdirs, "user_runtime_path", lambda name: folder)
    return folder


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def gone() -> int:
    """The id of a process that has ended."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def run_of(port: int, pid: int | None = None) -> local.Run:
    return local.Run(port, os.getpid() if pid is None else pid, local.new_token(), "0")


@pytest.mark.rule("PROC-1")
def test_the_folder_is_made_closed_and_kept_closed(runtime):
    assert local.runtime_folder() == runtime
    assert stat.S_IMODE(runtime.stat().st_mode) == 0o700
    runtime.chmod(0o755)
    local.runtime_folder()
    assert stat.S_IMODE(runtime.stat().st_mode) == 0o700


@pytest.mark.rule("PROC-1")
def test_without_a_folder_of_the_session_one_is_made_without_a_word(tmp_path, monkeypatch):
    def warning(name):
        warnings.warn("there is none", stacklevel=1)
        return tmp_path / "runtime-1" / name

    monkeypatch.setattr(platformdirs, "user_runtime_path", warning)  # any warning is an error in these tests
    assert stat.S_IMODE(local.runtime_folder().stat().st_mode) == 0o700


@pytest.mark.rule("PROC-1")
def test_a_folder_others_could_exchange_is_refused(runtime, tmp_path):
    runtime.parent.chmod(0o777)
    with pytest.raises(FoldlogError) as caught:
        local.runtime_folder()
    assert "XDG_RUNTIME_DIR" in str(caught.value)
    runtime.parent.chmod(0o1777)  # like the system's folder for temporary files: nobody else may rename in it
    local.runtime_folder()
    runtime.rmdir()
    (tmp_path / "elsewhere").mkdir()
    runtime.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FoldlogError):
        local.runtime_folder()


@pytest.mark.rule("PROC-1")
def test_a_folder_of_another_user_is_refused(runtime, monkeypatch):
    runtime.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(FoldlogError) as caught:
        local.runtime_folder()
    assert caught.value.code == "RUNTIME_FOLDER"


@pytest.mark.rule("PROC-2")
def test_a_run_file_is_closed_and_comes_back():
    path = local.proxy_file(4141)
    run = run_of(4141)
    local.write(path, run)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert local.read(path) == run
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert run.token not in repr(path)
    path.chmod(0o644)
    assert local.read(path) is None
    path.write_text("no json")
    path.chmod(0o600)
    assert local.read(path) is None
    assert local.read(path.with_name("none")) is None


@pytest.mark.rule("PROC-3")
def test_only_what_answers_is_running(listening):
    live, dead, other = local.proxy_file(listening), local.proxy_file(1), local.proxy_file(2)
    local.write(live, run_of(listening))
    local.write(dead, run_of(1, gone()))
    local.write(other, run_of(2))  # there, but not listening: it may be starting
    assert [run.port for run in local.proxies()] == [listening]
    assert live.exists()
    assert not dead.exists()
    assert other.exists()
    local.remove(live, os.getpid() + 1)
    assert live.exists()
    local.remove(live)
    assert not live.exists()


@pytest.mark.rule("PROC-4")
def test_the_proxy_that_is_meant(listening):
    none: dict[str, str] = {}
    assert local.proxy(environ=none) is None
    run = run_of(listening)
    path = local.proxy_file(listening)
    local.write(path, run)
    assert local.proxy(environ=none) == run
    for named in (str(listening), f"http://127.0.0.1:{listening}/", str(path)):
        assert local.proxy(environ={"FOLDLOG_PROXY": named}) == run
    assert local.proxy(environ={"FOLDLOG_PROXY": "1"}) is None
    assert local.proxy(1, none) is None
    with pytest.raises(OptionError) as caught:
        local.proxy(environ={"FOLDLOG_PROXY": "the other one"})
    assert "the other one" in str(caught.value)
    with socket.create_server(("127.0.0.1", 0)) as second:
        port = second.getsockname()[1]
        local.write(local.proxy_file(port), run_of(port))
        with pytest.raises(OptionError) as caught:
            local.proxy(environ=none)
        assert str(port) in str(caught.value)
        assert local.proxy(listening, none) == run


def test_tokens():
    token = local.new_token()
    assert token != local.new_token()
    assert len(token) >= 40
    assert local.same_token(token, token)
    assert not local.same_token(token[:-1] + "ü", token)


def test_the_address_of_a_run():
    assert run_of(5).url == "http://127.0.0.1:5"
    assert local.Run(5, 1, "", "", host="::1").url == "http://[::1]:5"

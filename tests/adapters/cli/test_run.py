"""`foldlog run`: a command with its requests going through the proxy (specs/cli.md)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from foldlog.adapters import local
from foldlog.adapters.cli import edits, wrapping
from support.program import command, environment, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
KEY = "sk-ant-planted-0123456789abcdef"
CLIENT = """
import json, os, sys, urllib.request
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
messages = []
for number in range(int(sys.argv[1])):
    messages.append({"role": "user", "content": f"question {number}"})
    body = json.dumps({"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": messages}).encode()
    headers = {"x-api-key": sys.argv[2], "content-type": "application/json", "anthropic-version": "2023-06-01",
               "x-claude-code-session-id": "s-1", "user-agent": "claude-cli/2"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as got:
        messages.append({"role": "assistant", "content": json.loads(got.read())["content"]})
print(sys.stdin.read() + json.dumps([os.environ["OPENAI_BASE_URL"], os.environ["FOLDLOG_PROXY"]]))
sys.exit(7)
"""


class Provider:
    """Answers like Anthropic's API, and keeps what it was sent."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.keys: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.bodies.append(body)
                outer.keys.append(self.headers["x-api-key"])
                said = {
                    "id": f"msg_{len(outer.bodies)}", "type": "message", "role": "assistant",
                    "model": "claude-sonnet-4-5", "content": [{"type": "text", "text": "an answer"}],
                    "stop_reason": "end_turn", "stop_sequence": None,
                    "usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 0,
                              "output_tokens": 3},
                }  # fmt: skip
                raw = json.dumps(said).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def provider():
    made = Provider()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def env(tmp_path, provider):
    """An empty home folder, and a provider named as a person names one."""
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    held = {
        name: value for name, value in environment().items() if not name.startswith(("FOLDLOG_", "XDG_", "ANTHROPIC_"))
    }
    return {
        **held, "HOME": str(tmp_path / "home"), "XDG_RUNTIME_DIR": str(runtime), "ANTHROPIC_BASE_URL": provider.url,
        "FOLDLOG_PORT": str(free_port()),
    }  # fmt: skip


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def start(env, *args, **how):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command("run", *args), env=env, text=True, **{**pipes, **how})


def files(tmp_path):
    return [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.slow
@pytest.mark.rule("RUN-1", "RUN-2", "RUN-3", "RUN-5", "RUN-7")
def test_a_command_runs_through_the_proxy_and_nothing_is_left_of_it(tmp_path, provider, env):
    done = start(env, "--", sys.executable, "-c", CLIENT, "3", KEY)
    out, err = done.communicate("typed ", timeout=60)
    assert done.returncode == 7, err
    assert out.startswith("typed ")
    openai, file = json.loads(out.removeprefix("typed "))
    assert openai == f"http://127.0.0.1:{env['FOLDLOG_PORT']}/v1"
    assert not Path(file).exists()
    assert provider.keys == [KEY] * 3
    assert len(err.strip().splitlines()) == 1
    assert err.startswith("foldlog: 3 requests, 0 folds, 90.0% of 300 prompt tokens read from the cache")
    assert b"<session-" in provider.bodies[0]  # the head: it was managed
    left = files(tmp_path)
    assert {path.name for path in left} >= {"foldlog.db", "proxy.log"}
    for path in left:
        assert KEY.encode() not in path.read_bytes(), path
    assert KEY not in err
    (log,) = [path for path in left if path.name == "proxy.log"]
    assert log.stat().st_mode & 0o077 == 0


@pytest.mark.slow
@pytest.mark.rule("RUN-6")
def test_observing_changes_no_byte(tmp_path, provider, env):
    claude = tmp_path / "claude"  # by its name it would get tools
    claude.write_text(f"#!{sys.executable}\nimport sys\nassert len(sys.argv) == 3, sys.argv\n{CLIENT}")
    claude.chmod(0o755)
    done = start(env, "--observe", "--", str(claude), "3", KEY)
    _, err = done.communicate("", timeout=60)
    assert done.returncode == 7, err
    assert [len(json.loads(body)["messages"]) for body in provider.bodies] == [1, 3, 5]
    assert b"\xc2\xa7" not in b"".join(provider.bodies)
    assert "foldlog: observed 3 requests of 1 session," in err


@pytest.mark.slow
@pytest.mark.rule("RUN-1")
def test_two_at_once_do_not_end_each_other(tmp_path, provider, env):
    shows = "import os; print(os.environ['FOLDLOG_PROXY'], flush=True); input()\n"
    env["FOLDLOG_ANTHROPIC_UPSTREAM"] = env.pop("ANTHROPIC_BASE_URL")
    first = start(env, "--", sys.executable, "-c", shows)
    file = first.stdout.readline().strip()
    second = start(env, "--", sys.executable, "-c", shows + CLIENT, "2", KEY)
    assert second.stdout.readline().strip() not in {"", file}
    assert Path(file).exists()
    first.communicate("\n", timeout=60)
    _, err = second.communicate("\n", timeout=60)
    assert second.returncode == 7, err
    assert "foldlog: 2 requests" in err
    assert err.strip().endswith("pass by pass: foldlog passes claude-code/s-1")
    assert not list((tmp_path / "run").rglob("proxy-*.json"))


@pytest.mark.slow
@pytest.mark.rule("RUN-2")
def test_signals_and_failures_end_as_in_a_shell(tmp_path, env):
    waits = "import time, sys; print('ready', flush=True); time.sleep(60)"
    done = start(env, "--", sys.executable, "-c", waits)
    assert done.stdout.readline() == "ready\n"
    done.send_signal(signal.SIGINT)  # the terminal sends it to the command too; this time it did not
    time.sleep(0.2)
    assert done.poll() is None
    done.send_signal(signal.SIGTERM)
    done.communicate(timeout=60)
    assert done.returncode == 128 + signal.SIGTERM
    done = start(env, "--", "no-such-command-anywhere")
    _, err = done.communicate("", timeout=60)
    assert done.returncode == 127
    assert "no-such-command-anywhere" in err
    done = start(env, "--", str(tmp_path))
    done.communicate("", timeout=60)
    assert done.returncode == 126
    assert not list((tmp_path / "run").rglob("proxy-*.json"))


@pytest.mark.slow
@pytest.mark.rule("RUN-1", "WATCH-1")
def test_a_running_proxy_is_used_and_left_running(tmp_path, provider, env):
    served = {**env, "FOLDLOG_ANTHROPIC_UPSTREAM": provider.url}
    del served["ANTHROPIC_BASE_URL"]
    proxy = subprocess.Popen(command("serve", "--json"), env=served, stdout=subprocess.PIPE, text=True)
    try:
        port = json.loads(proxy.stdout.readline())["port"]
        file = next((tmp_path / "run").rglob(f"proxy-{port}.json"))
        done = start(served, "--", sys.executable, "-c", CLIENT, "2", KEY)
        out, err = done.communicate("", timeout=60)
        assert (done.returncode, json.loads(out)[1]) == (7, str(file)), err
        assert f"the proxy on port {port} served" in err
        assert err.startswith("foldlog: 2 requests")
        assert proxy.poll() is None
        # one that asks elsewhere cannot serve this person's command
        shows = "import os; print(os.environ['FOLDLOG_PROXY'])"
        other = start({**served, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}, "--", sys.executable, "-c", shows)
        out, err = other.communicate("", timeout=60)
        assert out.strip() != str(file), err
        watching = subprocess.Popen(command("watch"), env=served, stdout=subprocess.PIPE, text=True)
        lines = [watching.stdout.readline() for _ in range(2)]  # the last ones first
        assert all("s-1" in line for line in lines)
    finally:
        proxy.terminate()
        proxy.communicate(timeout=30)
    rest, _ = watching.communicate(timeout=30)
    assert "the proxy ended: 2 requests" in rest


RUN = local.Run(4141, 1, "t", "0")


def wrapped(args, env=None, *, tools=True):
    return wrapping.wrap(args, RUN, Path("/run/proxy-4141.json"), env or {}, tools=tools)


@pytest.mark.rule("RUN-4")
def test_what_claude_code_gets():
    ready = wrapped(["/usr/bin/claude", "-p", "hi"], {"XDG_DATA_HOME": "/d", "SECRET": "x"})
    config, allowed, *rest = ready.args[1:]
    server = json.loads(config.removeprefix("--mcp-config="))["mcpServers"]["foldlog"]
    assert server["args"] == ["-P", "-m", "foldlog.adapters.mcp"]
    assert server["env"] == {"FOLDLOG_PROXY": "/run/proxy-4141.json", "XDG_DATA_HOME": "/d"}
    assert server["alwaysLoad"] is True
    assert (allowed, rest) == ("--allowedTools=mcp__foldlog", ["-p", "hi"])
    assert ready.env["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:4141"
    assert wrapped(["claude", "-p", "hi"], tools=False).args == ["claude", "-p", "hi"]
    assert wrapped(["claude", "mcp", "list"]).args == ["claude", "mcp", "list"]


@pytest.mark.rule("RUN-3", "RUN-4")
def test_claude_code_s_own_address_wins_over_the_environment(tmp_path):
    (tmp_path / "settings.json").write_text('{"env": {"ANTHROPIC_BASE_URL": "https://gw"}, /* mine */}')
    env = {"CLAUDE_CONFIG_DIR": str(tmp_path), "ANTHROPIC_BASE_URL": "https://other"}
    assert wrapping.upstreams_of(["claude"], env) == {"anthropic": "https://gw"}
    assert wrapped(["claude", "-p", "x"], env, tools=False).args[1:] == [
        '--settings={"env":{"ANTHROPIC_BASE_URL":"http://127.0.0.1:4141"}}', "-p", "x"
    ]  # fmt: skip
    assert wrapped(["claude", "--settings", "x"], env, tools=False).args[1:] == ["--settings", "x"]
    (tmp_path / "settings.json").write_text('{"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:4141"}}')
    assert wrapping.upstreams_of(["claude"], env, 4141) == {}
    assert wrapped(["claude"], env, tools=False).args == ["claude"]
    (tmp_path / "settings.json").write_text("broken")
    assert wrapping.upstreams_of(["claude"], env) == {"anthropic": "https://other"}


@pytest.mark.rule("RUN-3", "RUN-4")
def test_what_codex_gets(tmp_path):
    env = {"CODEX_HOME": str(tmp_path)}
    plain = wrapped(["codex", "exec", "hi"], env)
    assert plain.args[1].startswith("-c")
    assert plain.args[2].startswith("mcp_servers.foldlog={ command = ")
    assert plain.args[3:] == ["-c", 'openai_base_url="http://127.0.0.1:4141/v1"', "exec", "hi"]
    (tmp_path / "config.toml").write_text(
        'model_provider = "own"\n[model_providers.own]\nbase_url = "https://gw/v1"\n'
        '[profiles.p]\nmodel_provider = "other"\n[model_providers.other]\nbase_url = "https://other/v1/"\n'
    )
    assert wrapped(["codex"], env, tools=False).args[2] == 'model_providers.own.base_url="http://127.0.0.1:4141/v1"'
    assert wrapping.upstreams_of(["codex"], env) == {"openai": "https://gw/v1"}
    assert wrapping.upstreams_of(["codex", "-p", "p"], env) == {"openai": "https://other/v1"}
    given = ["codex", "-c", 'model_providers.own.base_url="https://third/v1"', "exec"]
    assert wrapping.upstreams_of(given, env) == {"openai": "https://third/v1"}
    ours = 'model_providers.own.base_url="http://127.0.0.1:4141/v1"'
    ready = wrapped([*given, "--config=x=1", "-c", "y=2", "--", "-c", "openai_base_url=4"], env, tools=False).args
    assert ready == [
        "codex", "-c", ours, "-c", ours, "exec", "--config=x=1", "-c", "y=2", "--", "-c", "openai_base_url=4"
    ]  # fmt: skip
    table = ["codex", "-c", "model_provider=my", '--config=model_providers.my={name="n", base_url="https://my/v1"}']
    assert wrapping.upstreams_of(table, env) == {"openai": "https://my/v1"}
    assert wrapped(table, env, tools=False).args == [
        "codex", "-c", ours.replace("own", "my"), "-c", "model_provider=my",
        '--config=model_providers.my={ name = "n", base_url = "http://127.0.0.1:4141/v1" }',
    ]  # fmt: skip
    assert wrapping.upstreams_of(["codex", "-c", "model_provider=openai"], env) == {}
    (tmp_path / "config.toml").write_text("broken")
    assert wrapping.upstreams_of(["codex"], env) == {}


@pytest.mark.rule("RUN-1", "RUN-3", "RUN-4")
def test_what_others_get():
    ready = wrapped(
        ["opencode", "run"], {"OPENCODE_CONFIG_CONTENT": '{"model": "x", "provider": {"openai": {"name": "n"}}}'}
    )
    given = json.loads(ready.env["OPENCODE_CONFIG_CONTENT"])
    assert given["model"] == "x"
    assert given["provider"]["openai"] == {"name": "n", "options": {"baseURL": "http://127.0.0.1:4141/v1"}}
    assert given["mcp"]["foldlog"]["environment"] == {"FOLDLOG_PROXY": "/run/proxy-4141.json"}
    behind = wrapped(["python"], {"HTTPS_PROXY": "http://corp:1", "NO_PROXY": "a"}).env
    assert behind["NO_PROXY"] == "a,127.0.0.1,localhost,::1"
    assert "NO_PROXY" not in wrapped(["python"]).env
    assert wrapping.upstreams_of(["x"], {"OPENAI_BASE_URL": "https://gw/v1/"}) == {"openai": "https://gw/v1"}


@pytest.mark.rule("RUN-4")
def test_a_host_with_a_plugin_is_not_managed_twice(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for host in ("pi", "/opt/omp"):
        result = run("run", "--", host)
        assert result.exit_code == 2
        assert f"foldlog setup {Path(host).name}" in result.stderr
    edits.record_path("opencode").parent.mkdir(parents=True)
    edits.record_path("opencode").write_text('{"files": [{"file": "x", "after": "", "backup": "", "done": []}]}')
    result = run("run", "--", "opencode", "run")
    assert result.exit_code == 2
    assert "start opencode as always" in result.stderr


def test_an_address_of_our_own_proxy_is_no_upstream():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        path = local.proxy_file(port)
        local.write(path, local.Run(port, os.getpid(), "t", "0"))
        try:
            assert wrapping.upstreams_of(["x"], {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}"}) == {}
        finally:
            path.unlink()

"""Setting hosts up and back (specs/cli.md), on real files under a home folder of the test's own."""

from __future__ import annotations

import json
import stat
import tomllib

import pytest

from foldlog.adapters.cli import edits, service, setting_up
from support.program import run

CLAUDE = '{\n  "numStartups": 3,\n  "mcpServers": {\n    "other": {"command": "y"}\n  }\n}'
SETTINGS = '{\n    // mine\n    "env": {"A": "b"},\n    "permissions": {\n        "allow": ["Bash(ls)"],\n    },\n}\n'
CODEX = '# mine\nmodel = "gpt-5"\n\n[mcp_servers.other]\ncommand = "y"\n'
OPENCODE = '{\n  "$schema": "https://opencode.ai/config.json",\n  "compaction": { "auto": true, "prune": true }\n}\n'
HOSTS = ["claude-code", "codex", "opencode", "pi", "omp"]
FILES = {
    "claude-code": {".claude.json": CLAUDE, ".claude/settings.json": SETTINGS},
    "codex": {".codex/config.toml": CODEX},
    "opencode": {".config/opencode/opencode.json": OPENCODE},
    "pi": {".pi/agent/extensions/mine.ts": "export default () => {}\n"},
    "omp": {},
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR", "XDG_CONFIG_HOME", "FOLDLOG_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    plugins = tmp_path / "plugins"
    for room, name in (("opencode", "plugin.js"), ("pi", "extension.js")):
        (plugins / room).mkdir(parents=True)
        (plugins / room / name).write_text("export default 1;\n")
    monkeypatch.setattr(setting_up.hosts, "__file__", str(plugins / "__init__.py"))
    return folder


def tree(folder):
    """Every file and folder with content and mode."""
    return {
        str(path.relative_to(folder)): path.read_bytes() + oct(stat.S_IMODE(path.stat().st_mode)).encode()
        if path.is_file()
        else None
        for path in sorted(folder.rglob("*"))
    }


def filled(home, host):
    for name, text in FILES[host].items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o640)


def setup(*args):
    result = run("setup", *args)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.rule("SETUP-1", "SETUP-2")
@pytest.mark.parametrize("serving", [False, True])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("host", HOSTS)
def test_remove_undoes_it_byte_for_byte(home, monkeypatch, host, full, serving):
    monkeypatch.setattr(service, "enabled", lambda: serving)
    if full:
        filled(home, host)
    before = tree(home)
    shown = setup(host, "--yes")
    assert "+++ " in shown
    assert tree(home) != before
    again = tree(home)
    assert "set up already" in setup(host, "--yes")
    assert tree(home) == again
    setup(host, "--remove")
    assert tree(home) == before
    assert "nothing to undo" in setup(host, "--remove")


@pytest.mark.rule("SETUP-1")
@pytest.mark.parametrize("host", HOSTS)
def test_without_a_yes_nothing_is_changed(home, host):
    filled(home, host)
    before = tree(home)
    result = run("setup", host)
    assert result.exit_code == 1
    assert "--yes" in result.stderr
    assert tree(home) == before


@pytest.mark.rule("SETUP-2")
def test_from_a_file_that_was_changed_since_only_our_entries_go(home, monkeypatch):
    monkeypatch.setattr(service, "enabled", lambda: True)
    for host in ("claude-code", "codex", "opencode"):
        filled(home, host)
        setup(host, "--yes")
    changes = {
        ".claude.json": ('"numStartups": 3', '"numStartups": 4'),
        ".claude/settings.json": ("// mine", "// still mine"),
        ".codex/config.toml": ('"gpt-5"', '"gpt-6"'),
        ".config/opencode/opencode.json": ('"prune": true', '"prune": false'),
    }
    for name, (old, new) in changes.items():
        path = home / name
        path.write_text(path.read_text().replace(old, new))
    for host in ("claude-code", "codex", "opencode"):
        setup(host, "--remove")
        for name, text in FILES[host].items():
            old, new = changes[name]
            assert (home / name).read_text() == text.replace(old, new)
    assert not list(home.rglob(f"*{edits.BACKUP}*"))


@pytest.mark.rule("SETUP-2")
def test_what_the_person_made_of_our_entry_stays(home):
    setup("codex", "--yes")
    path = home / ".codex/config.toml"
    path.write_text(path.read_text().replace("[mcp_servers.foldlog]\n", "[mcp_servers.foldlog]\nenabled = false\n"))
    mine = path.read_text()
    setup("codex", "--remove")
    assert path.read_text() == mine


@pytest.mark.rule("SETUP-4")
def test_what_is_written_for_claude_code(home, monkeypatch):
    filled(home, "claude-code")
    text = setup("claude-code", "--yes")
    assert "foldlog run -- claude" in text
    state = json.loads((home / ".claude.json").read_text())
    assert state["mcpServers"]["other"] == {"command": "y"}
    assert state["mcpServers"]["foldlog"]["args"] == ["-P", "-m", "foldlog.adapters.mcp"]
    assert state["mcpServers"]["foldlog"]["alwaysLoad"] is True
    settings = (home / ".claude/settings.json").read_text()
    assert '"allow": ["Bash(ls)", "mcp__foldlog"],' in settings
    assert "ANTHROPIC_BASE_URL" not in settings
    assert "// mine" in settings
    assert stat.S_IMODE((home / ".claude/settings.json").stat().st_mode) == 0o640
    monkeypatch.setattr(service, "enabled", lambda: True)
    setup("claude-code", "--yes")
    assert '"ANTHROPIC_BASE_URL": "http://127.0.0.1:4141"' in (home / ".claude/settings.json").read_text()
    setup("claude-code", "--remove")
    assert (home / ".claude/settings.json").read_text() == SETTINGS
    assert (home / ".claude.json").read_text() == CLAUDE


@pytest.mark.rule("SETUP-4")
def test_what_is_written_for_codex(home, monkeypatch):
    monkeypatch.setattr(service, "enabled", lambda: True)
    filled(home, "codex")
    setup("codex", "--yes")
    found = tomllib.loads((home / ".codex/config.toml").read_text())
    assert found["openai_base_url"] == "http://127.0.0.1:4141/v1"
    assert found["mcp_servers"]["foldlog"]["args"] == ["-P", "-m", "foldlog.adapters.mcp"]
    assert found["mcp_servers"]["other"] == {"command": "y"}


@pytest.mark.rule("SETUP-5")
@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_a_provider_of_the_person_s_own_is_not_lost(home, monkeypatch, tmp_path, host):
    monkeypatch.setattr(service, "enabled", lambda: True)
    own = "https://gateway.example/v1"
    if host == "codex":
        name, text = ".codex/config.toml", f'model_provider = "own"\n[model_providers.own]\nbase_url = "{own}"\n'
    else:
        name, text = ".claude/settings.json", json.dumps({"env": {"ANTHROPIC_BASE_URL": own}})
    (home / name).parent.mkdir()
    (home / name).write_text(text)
    before = tree(home)
    result = run("setup", host, "--yes")
    assert result.exit_code == 2
    assert "[upstreams]" in result.stderr
    assert own in result.stderr
    assert tree(home) == before
    config = tmp_path / "config.toml"
    upstream = "openai" if host == "codex" else "anthropic"
    config.write_text(f'[upstreams]\n{upstream} = "{own}"\n')
    monkeypatch.setenv("FOLDLOG_CONFIG", str(config))
    setup(host, "--yes")
    assert "127.0.0.1:4141" in (home / name).read_text()
    setup(host, "--remove")
    assert tree(home) == before


@pytest.mark.rule("SETUP-4")
def test_what_is_written_for_the_plugins_hosts(home):
    filled(home, "opencode")
    setup("opencode", "--yes")
    found = json.loads((home / ".config/opencode/opencode.json").read_text())
    assert found["compaction"] == {"auto": True, "prune": True}, "the plugin switches it off while it runs"
    (plugin,) = found["plugin"]
    for path in (home / plugin, home / ".pi/agent/extensions/foldlog.js"):
        if not path.exists():
            setup("pi", "--yes")
        text = path.read_text()
        assert "FOLDLOG_COMMAND" in text
        assert "export { default } from" in text


@pytest.mark.parametrize(
    ("name", "text"), [(".claude.json", "{broken"), (".claude/settings.json", '{"permissions": []}')]
)
def test_a_file_that_cannot_be_edited_is_left_alone(home, name, text):
    (home / name).parent.mkdir(exist_ok=True)
    (home / name).write_text(text)
    before = tree(home)
    result = run("setup", "claude-code", "--yes")
    assert result.exit_code == 2
    assert name in result.stderr
    assert tree(home) == before


def test_a_link_to_the_file_stays_a_link(home, tmp_path):
    real = tmp_path / "dotfiles.toml"
    real.write_text(CODEX)
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").symlink_to(real)
    setup("codex", "--yes")
    assert (home / ".codex/config.toml").is_symlink()
    assert "foldlog" in real.read_text()
    setup("codex", "--remove")
    assert (home / ".codex/config.toml").is_symlink()
    assert real.read_text() == CODEX


@pytest.mark.rule("SETUP-2")
def test_without_a_record_our_entries_are_found_by_what_they_are(home):
    filled(home, "codex")
    setup("codex", "--yes")
    edits.record_path("codex").unlink()
    setup("codex", "--remove")
    assert (home / ".codex/config.toml").read_text() == CODEX

"""The user's configuration (specs/config.md)."""

from __future__ import annotations

import pytest

from foldlog.adapters import config
from foldlog.adapters.models.summarizers import OpenAI
from foldlog.domain.errors import OptionError

NONE: dict[str, str] = {}


def written(tmp_path, text):
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_without_a_file_everything_has_its_default(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    found = config.load(environ=NONE)
    assert (found.host, found.port, found.db, found.summarizer) == ("127.0.0.1", 4141, None, "extractive")
    assert found.upstreams == config.UPSTREAMS
    assert found.fail_closed_blocking is True
    assert config.policy(found) is None


@pytest.mark.rule("CONF-4")
def test_a_named_file_must_be_there(tmp_path):
    path = tmp_path / "none.toml"
    for how in ({"path": path, "environ": NONE}, {"environ": {"FOLDLOG_CONFIG": str(path)}}):
        with pytest.raises(OptionError) as caught:
            config.load(**how)
        assert str(path) in str(caught.value)


def test_a_whole_file(tmp_path):
    path = written(
        tmp_path,
        """
db = "memory:"
port = 5000
fail_closed_blocking = false
hot_sessions_mb = 64
idle_exit_s = 2.5
[upstreams]
anthropic = "http://127.0.0.1:9000/"
[models."My-Model-*"]
context = 50000
[summarizer]
kind = "openai"
model = "small"
base_url = "http://127.0.0.1:9/v1"
key_env = ""
[policy]
execute_threshold_percentage = 50
""",
    )
    found = config.load(path, NONE)
    assert found.upstreams == {**config.UPSTREAMS, "anthropic": "http://127.0.0.1:9000"}
    assert (found.models["My-Model-*"].context, found.models["My-Model-*"].output) == (50_000, 0)
    assert config.policy(found).execute_threshold_percentage == 50
    made = config.summarizer(found)
    assert isinstance(made, OpenAI)
    assert (made.model, made.base_url, made.key_env) == ("small", "http://127.0.0.1:9/v1", "")
    assert found.fail_closed_blocking is False


@pytest.mark.rule("CONF-1")
@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("prot = 1", "prot", "prot"),
        ("port = 70000", "port", "70000"),
        ('port = "x"', "port", "'x'"),
        ("db = ''", "db", "''"),
        ("[upstreams]\nmistral = 'https://x.org'", "upstreams.mistral", "mistral"),
        ("[models.x]\ncontext = -1", "models.x.context", "-1"),
        ("[models.x]\nwindow = 1", "models.x.window", "window"),
        ("summarizer = 'clever'", "summarizer", "clever"),
        ("[policy]\nexecute_threshold_percentage = 5", "'policy.execute_threshold_percentage'", "20 or more (got 5)"),
        ("[policy]\nprotected_tokens = {m = 'x'}", "'policy.protected_tokens.m'", "a whole number (got 'x')"),
        ("[policy]\nprotected_tools = {m = 1.5}", "'policy.protected_tools.m'", "a whole number (got 1.5)"),
        ("[policy]\ncolour = 1", "no setting 'policy.colour'; there are cache_ttl", "(got 'colour')"),
        ("[policy.memory]\nx = 1", "no setting 'policy.memory.x'; there are auto_search", "(got 'x')"),
        ("[policy]\ncache_ttl = '5x'", "'policy.cache_ttl'", "5m or 1h, digits alone (ms), or never (got '5x')"),
        ("[policy]\ncache_ttl = {m = '1d'}", "'policy.cache_ttl'", "'1d'"),
        ("[policy]\ncache_ttl = 5", "'policy.cache_ttl'", "text (got 5)"),
        ("[summarizer]\nkind = 'openai'", "the setting 'summarizer.model' is missing", ""),
        ("[summarizer]\nkind = 'x'\nmodel = 'y'", "'summarizer.kind'", "'openai' or 'anthropic' (got 'x')"),
        ("[summarizer]\nkind = 'openai'\nmodel = 'y'\nx = 1", "no setting 'summarizer.x'", "base_url, key_env, kind"),
        ("hot_sessions_mb = 0", "hot_sessions_mb", "0"),
        ("idle_exit_s = nan", "idle_exit_s", "nan"),
        ("port = ", "TOML", ""),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, key, value):
    path = written(tmp_path, text)
    with pytest.raises(OptionError) as caught:
        config.load(path, NONE)
    said = str(caught.value)
    assert str(path) in said
    assert key in said
    assert value in said


@pytest.mark.rule("CONF-2")
def test_variables_win_over_the_file(tmp_path):
    path = written(tmp_path, "port = 5000\nfail_closed_blocking = true")
    env = {
        "FOLDLOG_CONFIG": str(path), "FOLDLOG_PORT": "6000", "FOLDLOG_DB": "/somewhere/x.db",
        "FOLDLOG_SUMMARIZER": "none",
        "FOLDLOG_OPENAI_UPSTREAM": "http://localhost:1", "FOLDLOG_FAIL_CLOSED_BLOCKING": "false", "FOLDLOG_KEY": "x",
    }  # fmt: skip
    found = config.load(environ=env)
    assert (found.port, found.db, config.summarizer(found)) == (6000, "sqlite:////somewhere/x.db", None)
    assert found.upstreams["openai"] == "http://localhost:1"
    assert found.fail_closed_blocking is True
    with pytest.raises(OptionError) as caught:
        config.load(environ={**env, "FOLDLOG_PORT": "many"})
    assert "FOLDLOG_PORT" in str(caught.value)
    assert "'many'" in str(caught.value)


@pytest.mark.rule("CONF-3")
@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.4", "example.org", ""])
def test_the_proxy_stays_on_this_machine(tmp_path, host):
    with pytest.raises(OptionError) as caught:
        config.load(written(tmp_path, f'host = "{host}"'), NONE)
    assert "this machine" in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_addresses_of_this_machine_are_taken(tmp_path, host):
    assert config.load(written(tmp_path, f'host = "{host}"'), NONE).host == host


@pytest.mark.rule("CONF-3")
@pytest.mark.parametrize("url", ["ftp://x", "https://", "https://key@x.org", "https://x.org/?key=1", "x.org"])
def test_an_upstream_is_an_address_alone(tmp_path, url):
    with pytest.raises(OptionError) as caught:
        config.load(written(tmp_path, f'[upstreams]\nopenai = "{url}"'), NONE)
    assert "openai" in str(caught.value)
    assert "key@" not in str(caught.value)
    assert "key=1" not in str(caught.value)

"""Editing a person's JSON and TOML as text (specs/cli.md)."""

from __future__ import annotations

import json
import re
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldlog.adapters.cli import jsonc, tomltext
from foldlog.domain.errors import InputError

SETTINGS = """{
    // my settings
    "a": 1, // one
    "list": ["x", "y"],
    "o": {
        "k": "// no comment" /* yes */
    },
    "tail": [
        1,
    ],
}
"""
BARE = '{\n  "a": 1, // one\n  "b": 2 // two\n}\n'


@pytest.mark.rule("SETUP-3")
@pytest.mark.parametrize("text", [SETTINGS, BARE, '{"a":1}', '{\n\t"a": [],\n\t"o": {"x": 1}\n}', "{}\n"])
@pytest.mark.parametrize("path", [("new",), ("new", "deeper"), ("o", "n")])
@pytest.mark.parametrize("value", ["v", {"command": "x", "args": ["1", "2"]}, False])
def test_what_is_put_into_json_comes_out_again(text, path, value):
    after = jsonc.put(text, path, value)
    assert jsonc.get(after, path) == value
    before = jsonc.read(text)
    for depth in range(len(path), 0, -1):
        had = before
        for key in path[: depth - 1]:
            had = had.get(key, {}) if isinstance(had, dict) else {}
        if path[depth - 1] not in had:
            after = jsonc.drop(after, path[:depth])
    assert after == text


@pytest.mark.rule("SETUP-3")
@pytest.mark.parametrize(("path", "item"), [(("list",), "z"), (("tail",), 2), (("fresh",), "z")])
def test_items_of_lists(path, item):
    after = jsonc.append(SETTINGS, path, item)
    assert jsonc.get(after, path)[-1] == item
    without = jsonc.drop_item(after, path, item)
    assert (jsonc.drop(without, path) if path == ("fresh",) else without) == SETTINGS


def test_a_value_is_replaced_where_it_stands():
    assert jsonc.put(SETTINGS, ("a",), 5) == SETTINGS.replace('"a": 1', '"a": 5')
    assert jsonc.put(SETTINGS, ("o", "k"), jsonc.Raw("0x")) == SETTINGS.replace('"// no comment"', "0x")
    assert jsonc.raw(SETTINGS, ("list",)) == '["x", "y"]'
    assert "// two" in jsonc.put(BARE, ("c",), 3).splitlines()[2]


@pytest.mark.parametrize(
    "text", ["[1]", "{", '{"a" 1}', '{"a": 1} x', '{"a": 1,, }', '{"a": }', "[" * 5000, '{"a": 01x}']
)
def test_what_is_no_json_is_refused_with_its_line(text):
    with pytest.raises(InputError):
        jsonc.put(text, ("a", "b"), 1)


@settings(max_examples=30, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda c: st.lists(c) | st.dictionaries(st.text(), c)
    )
)
def test_json_reads_as_the_library_reads_it(value):
    for indent in (None, 2, "\t"):
        text = json.dumps({"k": value}, indent=indent)
        assert jsonc.read(text) == {"k": value}
        assert jsonc.drop(jsonc.put(text, ("other", "x"), [1]), ("other",)) == text


CODEX = """# mine
model = "gpt-5" # best
model_provider = "fake"

[model_providers.fake]
name = "x"
base_url = "http://a/v1" # here

# about the other
[mcp_servers.other]
command = "y"
args = [
  "[not a header]",
]
"""


@pytest.mark.rule("SETUP-3")
@pytest.mark.parametrize("text", [CODEX, "", "a = 1\n"])
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("mcp_servers", "foldlog"), {"command": "f", "args": ["mcp"], "env": {"A": 'b"'}}),
        (("openai_base_url",), "http://127.0.0.1:1/v1"),
    ],
)
def test_what_is_put_into_toml_comes_out_again(text, path, value):
    after = tomltext.put(text, path, value)
    assert tomltext.get(after, path) == value
    assert tomllib.loads(after)
    assert tomltext.drop(after, path) == text
    assert tomltext.put(after, path, value) == after


@pytest.mark.rule("SETUP-3")
def test_a_toml_key_is_replaced_where_it_stands_and_put_back():
    path = ("model_providers", "fake", "base_url")
    was = tomltext.raw(CODEX, path)
    after = tomltext.put(CODEX, path, "http://b")
    assert tomltext.get(after, path) == "http://b"
    assert tomltext.put_raw(after, path, was) == CODEX
    inside = ("mcp_servers", "other", "z")
    assert tomltext.drop(tomltext.put(CODEX, inside, 1), inside) == CODEX
    other = tomltext.put(tomltext.put(CODEX, ("mcp_servers", "x-1"), {"a": 1}), ("mcp_servers", "x-1"), {"b": 2})
    assert tomllib.loads(other)["mcp_servers"]["x-1"] == {"b": 2}


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("mcp_servers = {}\n[a", ("x",), 1),
        ("mcp_servers = { other = { command = 'y' } }\n", ("mcp_servers", "foldlog"), {"command": "f"}),
        ("mcp_servers.foldlog.command = 'y'\n", ("mcp_servers", "foldlog"), {"command": "f"}),
        ("a = '''\nopenai_base_url = 1\n'''\n", ("openai_base_url",), "x"),
        ("a = 1\n", ("a", "b"), {"c": 1}),
    ],
)
def test_toml_written_in_a_way_these_edits_do_not_know_is_refused(text, path, value):
    """… or changed so that it reads as asked: never into something else."""
    try:
        after = tomltext.put(text, path, value)
    except InputError as error:
        assert re.search(r"TOML|only its author|no table", str(error))
    else:
        assert tomltext.get(after, path) == value

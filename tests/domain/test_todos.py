"""What a call that keeps a to-do list says, and the arc of ours that says it again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldlog.domain.todos import EXACT, PREFIX, arc, is_ours, keeps_list

OPEN = {"content": "write", "status": "in_progress"}
LONE = '{"todos":[{"content":"?","status":"pending"}]}'


def made(value: Any, name: str = "todowrite") -> dict[str, Any] | None:
    found = arc(name, json.dumps(value))
    if found is None:
        return None
    unit = json.loads(found.data)
    assert unit["id"] == found.id
    return dict(unit)


@pytest.mark.rule("TODO-2")
def test_a_list_is_said_again_with_its_own_arguments_and_a_plain_output():
    given = {"todos": [{"id": "7", **OPEN}, {"content": "test", "status": "pending", "priority": "high"}], "note": "é"}
    unit = made(given, "mcp__x__TodoWrite")
    assert unit is not None
    assert (unit["name"], unit["input"]) == ("mcp__x__TodoWrite", given)
    steps = [{**OPEN, "priority": "medium"}, {"content": "test", "status": "pending", "priority": "high"}]
    assert unit["output"] == json.dumps(steps, indent=2)
    assert is_ours(unit["id"])
    assert len(unit["id"]) == len(PREFIX) + 16 <= 40
    assert set(unit["id"]) <= set("abcdefghijklmnopqrstuvwxyz_0123456789")


@pytest.mark.rule("TODO-2")
def test_the_same_list_has_the_same_id_in_whatever_form_it_was_said():
    forms: list[Any] = [
        {"todos": [OPEN]},
        {"todos": [{"status": "in_progress", "content": "write", "activeForm": "writing", "priority": "medium"}]},
        {"explanation": "why", "plan": [{"step": "write", "status": "in_progress"}]},
        {"todos": [{"description": "write", "status": "in_progress"}]},
        {"todos": [{"title": "write", "status": "in_progress", "priority": " "}]},
    ]
    assert len({made(form)["id"] for form in forms}) == 1  # type: ignore[index]
    assert made({"todos": [OPEN, OPEN]})["id"] != made(forms[0])["id"]  # type: ignore[index]


@pytest.mark.rule("TODO-3")
@pytest.mark.parametrize(
    "given",
    [
        {"todos": []},
        {"todos": [{"content": "a", "status": "completed"}, {"content": "b", "status": "cancelled"}]},
        {"todos": [OPEN, {"content": "b", "status": "blocked"}]},
        {"todos": [OPEN, {"content": "b"}]},
        {"todos": [OPEN, {"content": " ", "status": "pending"}]},
        {"todos": [OPEN, {"content": 3, "status": "pending"}]},
        {"todos": [OPEN, "b"]},
        {"todos": "write"},
        {"items": [OPEN]},
        [OPEN],
        "write",
        None,
        {"todos": [OPEN], "half": 0.5},
        {"todos": [OPEN], "long": [EXACT]},
        {"todos": [{**OPEN, "status": ["pending"]}]},
    ],
    ids=str,
)
def test_what_is_over_or_not_understood_is_not_said_again(given: Any):
    assert made(given) is None


@pytest.mark.rule("TODO-3", "PROP-2")
@pytest.mark.parametrize(
    "given", [LONE.replace("?", "\\ud800"), LONE.replace("?", "\ud800"), "{", "", "[" * 5_000], ids=range(5)
)
def test_what_no_provider_takes_is_not_said_again(given: str):
    assert arc("todowrite", given) is None


@pytest.mark.rule("TODO-1")
def test_tools_are_known_by_their_own_names():
    prefixed = ["mcp__host__todowrite", "mcp_todowrite"]
    assert all(map(keeps_list, ["TodoWrite", "todowrite", "todo_write", "update_plan", "write_todos", *prefixed]))
    assert not any(map(keeps_list, ["_todo", "TaskCreate", "TaskUpdate", "todoread", "update_goal", ""]))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["content", "status", "x"]), inner),
    max_leaves=8,
)


@pytest.mark.rule("PROP-11", "TODO-3")
@given(st.one_of(json_values, st.fixed_dictionaries({"todos": json_values})))
def test_any_arguments_give_an_arc_that_can_be_read_or_none(value: Any):
    try:
        text = json.dumps(value)
    except UnicodeEncodeError:
        return
    found = arc("todowrite", text)
    assert found is None or json.loads(found.data)["input"] == value

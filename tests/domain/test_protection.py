"""What no drop may touch: the newest tool output, at least three tools, the newest ctx_reduce calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from foldlog.domain.passes.protection import floor, protected
from foldlog.domain.policy import make_policy, resolve
from foldlog.domain.state import State, Tag
from foldlog.domain.window import measure
from support.talk import Chat, assistant, call, result, use, user, words

VECTORS = json.loads(
    (Path(__file__).resolve().parents[2] / "specs/vectors/protection.json").read_text(encoding="utf-8")
)


def of(*tools: int, reduces: tuple[int, ...] = ()) -> State:
    state = State()
    for number, tokens in enumerate(tools, 1):
        state.tags.append(Tag(number, 0, "tool", tokens))
        state.tools_order.append(number)
    state.reduces.extend(reduces)
    return state


@pytest.mark.rule("DROP-8")
@pytest.mark.parametrize(("window", "tokens"), VECTORS["floor"])
def test_the_floor_follows_the_window(window: int, tokens: int):
    settings = resolve(make_policy(None), "m")
    assert floor(settings, measure(window, 0, settings, "other")) == tokens


@pytest.mark.rule("DROP-8")
def test_a_set_floor_is_taken_as_it_is():
    settings = resolve(make_policy({"protected_tokens": {"m": 0, "default": 123_456}}), "m")
    assert floor(settings, measure(200_000, 0, settings, "other")) == 0
    settings = resolve(make_policy({"protected_tokens": {"m": 0, "default": 123_456}}), "n")
    assert floor(settings, measure(200_000, 0, settings, "other")) == 123_456


@pytest.mark.rule("DROP-7")
@pytest.mark.parametrize("row", VECTORS["walk"], ids=str)
def test_the_walk_from_the_newest(row: dict[str, Any]):
    assert sorted(protected(of(*row["tools"]), row["floor"], emergency=False)) == row["keep"]


@pytest.mark.rule("DROP-7")
def test_dropped_tools_count_in_the_walk():
    """Membership is by stored tags of any status: it cannot move because something was dropped (3.3)."""
    state = of(400, 400, 400, 400, 400)
    before = protected(state, 1_500, emergency=False)
    state.tags[4].status = "dropped"
    assert protected(state, 1_500, emergency=False) == before == {2, 3, 4, 5}


@pytest.mark.rule("DROP-7")
def test_the_newest_three_reduces_are_kept_even_in_an_emergency():
    state = of(*([10] * 20), reduces=(1, 2, 3, 4))
    assert {2, 3, 4} <= protected(state, 0, emergency=False)
    assert 1 not in protected(state, 0, emergency=False)
    assert protected(state, 50_000, emergency=True) == {2, 3, 4}


@pytest.mark.rule("DROP-9")
def test_the_floor_moves_only_with_a_rebuild():
    chat = Chat(policy={"protected_tokens": 1_000})
    chat.say(user("start"))
    assert chat.session.status().protected_tokens == 1_000
    chat.reopen(policy={"protected_tokens": 9_000})
    assert chat.turn().level == "defer"
    assert chat.session.status().protected_tokens == 1_000
    chat.reopen(policy={"protected_tokens": 9_000}, model="other")
    chat.turn()
    chat.reopen(model="another")
    assert chat.turn().level == "hard"
    assert chat.session.status().protected_tokens == 9_000


@pytest.mark.rule("DROP-7", "T45", "SAY-4")
@pytest.mark.parametrize(("share", "kept"), [(800, 10), (1_000, 8), (1_300, 7), (1_600, 5), (4_000, 5)])
def test_the_floor_is_in_the_providers_tokens(share: int, kept: int):
    """As a rebuild adopted their ratio: what it takes of our own, no more than tokenizers differ."""
    for adopted in (False, True):
        chat = Chat(policy={"protected_tokens": 7_900})
        chat.say(user("start"))
        for number in range(14):
            chat.tool(f"t{number}", words(998))
        use(chat.turn(), chat.state.last.tokens * share // 1_000)
        if adopted:
            chat.session.report_cache_loss("gone")
        chat.turn()
        later = chat.session.reduce("2-15").split("later ")[1]
        assert later.count("§") // 2 == (kept if adopted else 8)
        assert len(chat.state.tools_order) - chat.state.edge == (kept if adopted else 8)


@pytest.mark.rule("DROP-7")
def test_the_engine_protects_the_exemplars():
    chat = Chat(policy={"protected_tokens": 0})
    chat.say(user("start"))
    for number in range(5):
        chat.tool(f"r{number}", words(3_000), name="mcp__foldlog__ctx_reduce", drop="1")
    for number in range(4):
        chat.tool(f"t{number}", "x")
    use(chat.turn(), 196_000)
    chat.session.reduce("2-6")
    chat.turn()
    assert [tag.status for tag in chat.state.tags[1:6]] == ["dropped", "dropped", "active", "active", "active"]


@pytest.mark.rule("DROP-7")
def test_messages_and_files_are_never_shielded():
    chat = Chat()
    chat.say(user("old plan " + words(50)))
    chat.say(assistant([call("t1")]), user([result("t1", "out")]))
    assert "later" not in chat.session.reduce("1")
    assert "later" in chat.session.reduce("2")

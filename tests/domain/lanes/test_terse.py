"""Old texts in fewer words: what may change in a text, how deep by age, and that it never goes back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldlog.domain.passes.lanes.compress import compress
from support.talk import Chat, assistant, user, words

LONG = "I think we should actually look at the configuration file in order to find the really important message. "


def chat(on: bool = True, **more: Any) -> Chat:
    policy = {"protected_tokens": 0, "caveman_text_compression": on, "caveman_min_chars": 100, **more}
    made = Chat(lanes=True, policy=policy)
    made.say(user("start"))
    return made


def rebuild(host: Chat) -> Any:
    host.session.report_cache_loss("said so")
    return host.turn()


def talk(host: Chat, count: int) -> None:
    for number in range(count):
        host.say(assistant(f"{LONG}{number}"), user("go on"))


def modes(host: Chat) -> list[str]:
    return [tag.mode for tag in host.state.tags if tag.tokens > 15]


@pytest.mark.rule("TERSE-1")
@pytest.mark.parametrize(
    ("depth", "before", "after"),
    [
        (1, "Just do it, please.", "do it, ."),
        (1, "We do this in order to win", "We do this to win"),
        (1, "It was sort of odd, I think, but fine", "It was odd, but fine"),
        (2, "The file has changed and a line was added", "file changed and line added"),
        (3, "stop because of rain and snow or hail", "stop // rain + snow | hail"),
        (3, "Message one, message two, message three", "Msg one, msg two, msg three"),
        (3, "one message only", "one message only"),
    ],
)
def test_words_that_say_little_leave(depth: int, before: str, after: str):
    assert compress(before, depth) == after


@pytest.mark.rule("TERSE-2")
@pytest.mark.parametrize(
    "kept",
    [
        "```py\nreally = a  + the\n```",
        "`the  really`",
        "https://example.org/the/really?a=just",
        "§12§",
        "toolu_really",
        "src/the/a/really.py",
        "deadbeefcafe",
        "just.txt",
        "U: just do the really simple thing, please",
    ],
)
def test_what_must_stay_to_the_letter_stays(kept: str):
    assert kept in compress(f"look\n{kept}\nagain", 3)


@given(st.text(alphabet="ab `/.\nU:§1justhe\x00", max_size=200), st.integers(1, 3))
def test_any_text_can_be_compressed(text: str, depth: int):
    short = compress(text, depth)
    assert len(short) <= len(text) + 2
    assert ("\x00" in short) == ("\x00" in text)


@pytest.mark.rule("TERSE-3")
def test_depth_follows_age_and_only_rises():
    host = chat()
    talk(host, 10)
    rebuild(host)
    assert set(modes(host)) == {""}, "seen for the first time"
    request = rebuild(host)
    assert modes(host) == ["terse3"] * 2 + ["terse2"] * 2 + ["terse1"] * 2 + [""] * 4
    wire = b"\n".join(request.messages_json).decode()
    assert "I think we should actually" in wire
    assert LONG + "0" not in wire
    deep = modes(host)
    talk(host, 10)
    rebuild(host)
    rebuild(host)
    assert all(now >= was for was, now in zip(deep, modes(host), strict=False))
    assert modes(host)[:4] == ["terse3"] * 4
    assert host.session.expand(2)[0].text == LONG + "0"


@pytest.mark.rule("TERSE-3", "LANE-2", "T15")
def test_it_is_served_so_on_every_pass_and_after_a_restart():
    host = chat()
    talk(host, 10)
    rebuild(host)
    request = rebuild(host)
    before = request.messages_json
    host.session.core._hot = None
    after = host.turn().messages_json
    assert after[: len(before)] == before


@pytest.mark.rule("TERSE-4")
@pytest.mark.parametrize("how", ["off", "subagent", "short"])
def test_it_is_asked_for_and_only_a_primary_s_long_texts(how: str):
    policy = {"protected_tokens": 0, "caveman_text_compression": how != "off"}
    host = Chat(
        lanes=True, mode="subagent" if how == "subagent" else "primary", policy={**policy, "caveman_min_chars": 5000}
    )
    host.say(user("start"))
    talk(host, 10)
    rebuild(host)
    rebuild(host)
    assert set(modes(host)) == {""}


@pytest.mark.rule("TERSE-3")
def test_a_short_text_can_be_dropped_like_any_other():
    host = chat()
    talk(host, 10)
    rebuild(host)
    rebuild(host)
    host.session.reduce("2")
    request = rebuild(host)
    assert "[dropped §2§]" in b"".join(request.messages_json).decode()
    assert host.state.tags[1].status == "dropped"


@pytest.mark.rule("TERSE-3")
@pytest.mark.parametrize("name", ["question", "todowrite", "ctx_reduce"])
def test_an_old_answer_list_or_example_protects_no_text_behind_it(name: str):
    host = chat()
    host.tool("early", words(40), name=name)
    talk(host, 10)
    for number in range(4):
        host.tool(f"t{number}", words(20) + str(number), n=number)
    rebuild(host)
    rebuild(host)
    assert modes(host).count("terse3") == 2


@pytest.mark.rule("TERSE-3")
def test_texts_among_the_protected_output_stay():
    host = chat(protected_tokens=2_000)
    talk(host, 10)
    for number in range(4):
        host.tool(f"t{number}", words(900) + str(number), n=number)
        talk(host, 2)
    rebuild(host)
    rebuild(host)
    short = [number for number, tag in enumerate(host.state.tags, 1) if tag.mode.startswith("terse")]
    edge = min(host.state.tools_order[-3:])
    assert short
    assert max(short) < edge

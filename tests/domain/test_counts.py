"""Our own count of a request, whatever lanes took the same part in turn (WINDOW-15)."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import foldlog
from foldlog.domain.identity import Observation, Scene
from foldlog.domain.passes import local
from foldlog.domain.passes.recovery import largest
from support.counts import EVERYTHING, LONG, PICTURE, recounted
from support.past import summarise
from support.talk import Chat, assistant, call, result, text, thinking, use, user, words

REMINDER = "\n<system-reminder>\n" + words(400) + "\n</system-reminder>"


def chat(**policy: Any) -> Chat:
    made = Chat(lanes=True, model="claude-sonnet-4-5", policy={"protected_tokens": 0, **policy})
    made.say(user("start"))
    return made


def anew(host: Chat) -> int:
    """Count the newest request anew, from what the state says is sent."""
    state = host.state
    scene = Scene(state, Observation(keep=len(state.path)))
    path = (scene.at(index) for index in range(scene.start(), scene.length()))
    fixed = state.fold.head_tokens + state.system_tokens + state.tools_tokens
    fixed += sum(unit.tokens for unit in state.units.values() if state.pos.get(unit.m, -1) >= state.start())
    return fixed + sum(local._shown(scene, m, scene.message(m), len(scene.message(m).parts)) for m in path)


def lost(host: Chat, *extra: Any) -> Any:
    host.session.report_cache_loss("gone")
    return host.say(*(extra or (assistant("ok"), user("on"))))


def compressed() -> tuple[Chat, str]:
    host = chat(caveman_text_compression=True, caveman_min_chars=100)
    for number in range(10):
        host.say(assistant(LONG * 20 + str(number)), user("go on"))
    lost(host)
    lost(host)
    return host, "2,4,6,8"


def injected() -> tuple[Chat, str]:
    host = chat()
    for _ in range(3):
        host.say(assistant("ok"), user("fix it " + words(50) + REMINDER))
    lost(host)
    lost(host)
    return host, "3,5,7"


def pictures() -> tuple[Chat, str]:
    host = chat()
    for number in range(4):
        request = host.say(
            assistant([call(f"p{number}", "shot")]), user([result(f"p{number}", [text(words(100)), PICTURE])])
        )
    request.report_error(400, "image exceeds the maximum number of images: too many images")
    host.again()
    return host, "2-3"


def files() -> tuple[Chat, str]:
    host = chat()
    for number in range(3):
        host.say(assistant(f"seen {number}"), user([text("look"), PICTURE]))
    return host, "4,7"


def tiny() -> tuple[Chat, str]:
    host = chat()
    for number in range(4):
        host.say(assistant("ok"), user(f"a {number}"))
    for number in range(4):
        host.tool(f"t{number}", "x", n=number)
    return host, "2-10"


def edited() -> tuple[Chat, str]:
    host = chat(smart_drops=True)
    for number in range(3):
        host.tool(f"e{number}", "done", name="Edit", file_path="/a.py", old_string=words(300), new_string=words(200))
    for number in range(24):
        host.tool(f"t{number}", words(10) + str(number), n=number)
    lost(host)
    lost(host)
    return host, "4-6"


CASES = [compressed, injected, pictures, files, tiny, edited]


@pytest.mark.rule("WINDOW-15", "LANE-3")
@pytest.mark.parametrize("made", CASES)
def test_what_two_lanes_took_of_a_part_is_counted_once(made: Any):
    host, marked = made()
    before = host.state.last.tokens
    assert before == anew(host)
    host.session.reduce(marked)
    host.session.flush()
    host.again()
    assert host.state.last.tokens == anew(host) > 0
    landed = next(did for did in host.last().decision.lanes if did.lane == "queued")
    assert landed.landed
    if made is not tiny:
        assert before - host.state.last.tokens == landed.tokens, "what it is said to free is what it freed"


@pytest.mark.rule("PERM-2", "WINDOW-15")
def test_what_a_text_no_longer_costs_is_no_reason_for_a_rebuild():
    host = chat()
    for _ in range(3):
        host.say(
            assistant("ok"),
            user("fix it " + words(20) + "\n<system-reminder>\n" + words(3_000) + "\n</system-reminder>"),
        )
    lost(host)
    request = lost(host)
    host.session.reduce("3,5,7")
    use(request, 140_000)
    assert host.turn().level == "defer"
    assert 0 < host.last().decision.drainable < 100


@pytest.mark.rule("WINDOW-15", "REFUSE-3")
def test_the_largest_part_is_the_largest_that_is_sent():
    host = chat()
    host.say(assistant("ok"), user("fix it " + words(5) + REMINDER))
    host.say(assistant("ok"), user(words(200)))
    lost(host)
    assert largest(host.state)[0] == 3
    lost(host)
    assert largest(host.state) == (5, host.state.tags[4].tokens)


@pytest.mark.rule("WINDOW-15", "SAY-4", "EMERG-3")
@pytest.mark.parametrize("seed", range(6))
def test_the_count_is_right_whatever_the_lanes_do_to_the_same_parts(seed: int):
    """All lanes on, marks, refused pictures, lost caches and emergencies in any order."""
    dice = random.Random(seed)
    host = chat(**EVERYTHING)
    request = host.again()
    for number in range(45):
        what = dice.choice(["tool", "tool", "talk", "edit", "picture", "same", "shot", "reduce"])
        size = dice.choice([3, 60, 700, 2_500])
        if what == "talk":
            said = [thinking(words(size)), text(LONG * dice.randrange(1, 12))]
            request = host.say(assistant(said), user(LONG + dice.choice(["", REMINDER])))
        elif what == "picture":
            request = host.say(assistant("hm"), user([text("look"), PICTURE]))
        elif what == "shot":
            request = host.tool(f"t{number}", [text(words(size)), PICTURE], name="shot")
        elif what == "edit":
            request = host.tool(
                f"t{number}", "done", name="Edit", file_path="/a", old_string=words(size), new_string="b"
            )
        elif what == "same":
            request = host.tool(f"t{number}", words(300), name="Read", file_path="/same")
        elif what == "reduce":
            request = host.tool(f"t{number}", "Queued.", name="ctx_reduce", drop="1")
        else:
            request = host.tool(f"t{number}", words(size) + str(number), n=number)
        assert host.state.last.tokens == anew(host), (seed, number, what)
        tags = len(host.state.tags)
        happens = dice.choice(["", "", "mark", "flush", "lost", "full", "images"])
        if happens in ("mark", "flush"):
            host.session.reduce(",".join(map(str, sorted(dice.sample(range(2, tags + 1), min(4, tags - 1))))))
        if happens == "flush":
            host.session.flush()
        elif happens == "lost":
            host.session.report_cache_loss("gone")
        elif happens == "full":
            use(request, dice.choice([140_000, 172_000, 196_000]))
        elif happens == "images":
            request.report_error(400, "too many images")
        if happens:
            host.turn()
            assert host.state.last.tokens == anew(host), (seed, number, what, happens, json.dumps(host.state.spares))


@pytest.mark.rule("SAY-4", "WINDOW-15")
def test_what_is_spent_is_what_is_still_sent_of_it():
    host, _ = pictures()
    for number in range(3):
        host.tool(f"t{number}", words(100), n=number)
    lost(host)
    tools = [host.state.tags[number - 1] for number in host.state.tools_order[:-3]]
    sent = [tag.tokens - host.state.spares.get(tag.m * 4_096 + tag.p, 0) for tag in tools if tag.status == "active"]
    assert host.state.spent == sum(sent) < sum(tag.tokens for tag in tools)


def sent_anew() -> tuple[Chat, list[Any]]:
    """The output of an arc that has left comes anew, and longer."""
    host = chat()
    for number in range(5):
        host.tool(f"t{number}", words(300), cmd=words(400))
    host.session.reduce("2")
    lost(host)
    assert host.state.gone
    host.messages[2] = user([result("t0", words(2_000))])
    return host, [assistant("ok"), user("on")]


def unsigned() -> tuple[Chat, list[Any]]:
    """Reasoning comes whose signature is lost, in an answer that is new or was shown before."""
    host = chat()
    host.say(assistant([text("so far"), call("t0", "Bash")]), user([result("t0", "x")]))
    lost_reasoning = {"type": "thinking", "thinking": words(500)}
    return host, [assistant([lost_reasoning, text("ok")]), user("on")]


def unsigned_behind() -> tuple[Chat, list[Any]]:
    host, new = unsigned()
    host.say(assistant("one"))
    host.messages[-1] = assistant([text("one"), *new[0]["content"]])
    return host, [user("on")]


@pytest.mark.rule("WINDOW-15", "PROP-3", "THINK-5")
@pytest.mark.parametrize("why", ["", "flush", "lost"])
@pytest.mark.parametrize("made", [sent_anew, unsigned, unsigned_behind])
def test_what_is_left_out_as_it_comes_counts_for_nothing(made: Any, why: str, monkeypatch: pytest.MonkeyPatch):
    """Its host sends it, the request does not: neither this pass nor the next, quiet or a rebuild, reckons with it."""
    host, new = made()
    off = recounted(monkeypatch)
    before = host.state.last.tokens
    if why == "flush":
        host.session.reduce("3")
        host.session.flush()
    elif why == "lost":
        host.session.report_cache_loss("gone")
    request = host.say(*new)
    assert request.level == {"": "defer", "flush": "soft+", "lost": "hard"}[why]
    assert host.state.last.tokens == anew(host) < before + 100
    host.turn()
    assert host.state.last.tokens == anew(host)
    assert set(off) == {0}


@pytest.mark.rule("WINDOW-15", "TAG-6")
@pytest.mark.parametrize("refused", [False, True], ids=["at once", "while nothing was sent"])
def test_a_path_that_comes_back_counts_again(refused: bool):
    host = Chat()
    said = [user("start"), assistant("a"), user(words(3_000)), assistant("b"), user("more")]
    host.say(*({**one, "id": str(number)} for number, one in enumerate(said)))
    whole, host.messages = host.messages, host.messages[:1]
    small = host.again()
    assert small.usage_estimate == anew(host) < 1_000
    host.messages = [*whole, assistant("c", id="5"), user("on", id="6")]
    if refused:
        small.report_failure("overflow")
        for number in range(2):  # the third is sent after all
            with pytest.raises(foldlog.Refused):
                host.again()
            host.messages += [assistant("c", id=f"1{number}"), user("on", id=f"2{number}")]
    assert host.again().usage_estimate == anew(host) > 3_000


@pytest.mark.rule("WINDOW-15", "HIST-32")
@pytest.mark.parametrize("there", [4, 10])
def test_what_comes_out_from_under_a_summary_counts(there: int, monkeypatch: pytest.MonkeyPatch):
    host = Chat()
    for number in range(10):
        host.say(user(f"{number} {words(50)}"), assistant(f"{number} {words(50)}"))
    host.say(user("on"))
    summarise(host, 6)
    summarise(host, 16)
    lost(host)
    host.messages = [*host.messages[:there], user("put in"), *host.messages[there:]]
    off = recounted(monkeypatch)
    assert "cut_void" in host.again().reasons
    assert set(off) == {0}

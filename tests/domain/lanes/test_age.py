"""Age reclaim: what one rebuild showed leaves at the next, and never by a pass of its own making."""

from __future__ import annotations

from typing import Any

import pytest

from support.talk import Chat, image, use, user, words

BARE = {"protected_tokens": 0}


def chat(**policy: Any) -> Chat:
    made = Chat(lanes=True, policy={**BARE, **policy})
    made.say(user("start"))
    return made


def fill(host: Chat, count: int, size: int = 400, first: int = 0, name: str = "Bash") -> None:
    for number in range(first, first + count):
        host.tool(f"t{number}", words(size) + str(number), name=name, n=number)


def rebuild(host: Chat) -> Any:
    """Let a rebuild happen that something else pays for."""
    host.session.report_cache_loss("said so")
    return host.turn()


def dropped(host: Chat) -> set[int]:
    return {number for number, tag in enumerate(host.state.tags, 1) if tag.status == "dropped"}


@pytest.mark.rule("AGE-1")
def test_an_output_is_seen_at_one_rebuild_and_leaves_at_the_next():
    host = chat()
    fill(host, 6)
    rebuild(host)
    assert dropped(host) == set(), "seen for the first time"
    fill(host, 5, first=6)
    rebuild(host)
    gone = dropped(host)
    kinds = {host.state.tags[number - 1].kind for number in gone}
    assert kinds == {"tool"}
    assert len(gone) == 6
    assert host.last().decision.lanes[-1].lane == "age"


@pytest.mark.rule("AGE-1", "LANE-2")
def test_a_deferred_pass_takes_nothing_out_however_old_it_is():
    host = chat()
    fill(host, 6)
    rebuild(host)
    fill(host, 12, first=6)
    assert host.last().decision is None
    assert dropped(host) == set()


@pytest.mark.rule("AGE-2")
@pytest.mark.parametrize(("size", "goes"), [(150, False), (600, True)])
def test_a_small_output_stays(size: int, goes: bool):
    host = chat()
    fill(host, 2, size)
    fill(host, 3, 10, first=2)
    rebuild(host)
    fill(host, 3, 10, first=5)
    rebuild(host)
    assert bool(dropped(host)) is goes


@pytest.mark.rule("AGE-2")
@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("todowrite", 1), ("TodoWrite", 1), ("update_plan", 1), ("mcp__foldlog__ctx_reduce", 3), ("question", 5),
        ("AskUserQuestion", 5), ("mcp__x__ask_user", 5), ("request_user_input", 5), ("TaskUpdate", 0),
    ],
)  # fmt: skip
def test_the_newest_of_some_tools_stay(name: str, kept: int):
    host = chat()
    fill(host, 5, name=name)
    fill(host, 3, 10, first=5)
    rebuild(host)
    fill(host, 3, 10, first=8)
    rebuild(host)
    assert len(dropped(host)) == 5 - kept


@pytest.mark.rule("AGE-2")
@pytest.mark.parametrize(("said", "called"), [("todowrite", "todowrite"), ("update_plan", "TodoWrite")])
def test_a_person_can_say_which_tools_results_stay(said: str, called: str):
    host = chat(protected_tools={"Bash": 4, said: 0})
    fill(host, 6)
    fill(host, 2, name=called, first=6)
    fill(host, 3, 10, first=8, name="Read")
    rebuild(host)
    fill(host, 3, 10, first=11, name="Read")
    rebuild(host)
    left = {tag.m for number, tag in enumerate(host.state.tags, 1) if tag.status == "active" and tag.tokens > 200}
    assert len(dropped(host)) == 4, "two of six, and both lists"
    assert len(left) == 4


@pytest.mark.rule("AGE-1")
def test_texts_and_files_of_people_never_leave_by_themselves():
    host = chat()
    host.say(user([image(), {"type": "text", "text": words(900)}]))
    fill(host, 4)
    rebuild(host)
    fill(host, 4, first=4)
    rebuild(host)
    assert {host.state.tags[number - 1].kind for number in dropped(host)} == {"tool"}


@pytest.mark.rule("AGE-3", "T24")
def test_routine_cleanup_comes_once_a_pressure_episode():
    """In the force band each pass may rebuild; routine work alone is worth one of them."""
    host = chat()
    fill(host, 8, 900)
    rebuild(host)
    fill(host, 8, 900, first=8)
    levels = []
    request = host.turn()
    for number in range(16, 30):
        use(request, 180_000)
        request = host.tool(f"t{number}", words(500), n=number)
        levels.append(request.level)
    assert levels.count("soft+") == 1, levels


@pytest.mark.rule("AGE-3", "PERM-14", "SCHED-8", "T24")
@pytest.mark.parametrize(("between", "ended"), [(83_200, False), (83_199, True), (20_000, True)])
def test_the_pass_that_begins_an_episode_may_clean_up_and_no_other_of_it(between: int, ended: bool):
    """A window that is only assumed has no emergency: what lands in its force band is routine, and once."""
    host = Chat(lanes=True, context_limit=0, policy=BARE)
    host.say(user("start"))
    fill(host, 8)
    request = rebuild(host)
    passes: list[tuple[str, list[str]]] = []
    for number, used in enumerate([110_000] * 4 + [between] + [110_000] * 4, 8):
        use(request, used)
        request = host.tool(f"t{number}", words(400) + str(number), n=number)
        decision = host.last().decision
        passes.append((request.level, [did.lane for did in decision.lanes] if decision else []))
    once, quiet = ("soft+", ["age"]), ("defer", [])
    assert passes == [once, *[quiet] * 4, once if ended else quiet, *[quiet] * 3]


@pytest.mark.rule("PERM-6", "T23")
@pytest.mark.parametrize("new", ["words", "an output"])
def test_a_subagent_cleans_up_again_behind_new_output_alone(new: str):
    host = Chat(lanes=True, mode="subagent", policy=BARE)
    host.say(user("start"))
    fill(host, 8)
    host.session.reduce("2-3")
    host.session.flush()
    assert host.again().level == "soft+"
    for number in range(8, 11):
        request = host.tool(f"t{number}", words(400), n=number)
    use(request, 140_000)
    request = host.tool("t11", words(400), n=11)
    assert (request.level, host.state.tools_order[-1]) == ("soft+", host.state.swept)
    levels = []
    for number in (12, 13):
        use(request, 140_000)
        request = host.turn() if new == "words" else host.tool(f"t{number}", words(400), n=number)
        levels.append(request.level)
    assert levels == ["defer", "defer" if new == "words" else "soft+"], "a request has to have held it"


@pytest.mark.rule("AGE-1", "LAW-1")
def test_a_restart_between_two_rebuilds_changes_nothing():
    host = chat()
    fill(host, 6)
    rebuild(host)
    host.session.core._hot = None
    fill(host, 5, first=6)
    rebuild(host)
    assert len(dropped(host)) == 6


@pytest.mark.rule("DROP-11", "T2")
def test_what_left_by_age_is_served_so_for_ever():
    host = chat()
    fill(host, 6)
    rebuild(host)
    fill(host, 5, first=6)
    request = rebuild(host)
    before = request.messages_json
    after = host.turn()
    assert after.messages_json[: len(before)] == before

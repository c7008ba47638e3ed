"""The simulated cache, by hand-computed cases for each profile."""

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from foldlog.adapters.billing.profiles import PROFILES, profile
from foldlog.adapters.billing.provider import Provider
from foldlog.domain.errors import InputError, OptionError
from support.wire_logs import block, blocks, random_log, record


@dataclass
class Played:
    figures: list
    misses: list


def play(name, *records):
    """(read, written, uncached) of each record, and why the last prefix was missed."""
    provider = Provider(PROFILES[name])
    usages = [provider.answer(one) for one in records]
    return Played([(u.read, u.written, u.uncached) for u in usages], [u.miss for u in usages])


def test_profiles_are_those_of_the_convention():
    """BILL-4: prices, lifetimes, marks, steps and minima."""
    told = {
        name: (p.read, p.write, p.output, p.lifetime // 1_000, p.marks, p.lookback, p.step, p.answers)
        for name, p in PROFILES.items()
    }
    assert told == {
        "anthropic-5m": (0.1, 1.25, 5, 300, 4, 20, 1, False),
        "anthropic-1h": (0.1, 2, 5, 3_600, 4, 20, 1, False),
        "openai": (0.1, 1, 8, 600, 0, 0, 128, False),
        "openai-write": (0.1, 1.25, 8, 1_800, 3, 0, 1, False),
        "deepseek": (0.1, 1, 1.5, 86_400, 0, 0, 64, True),
    }
    with pytest.raises(OptionError, match="anthropic-5m, anthropic-1h"):
        profile("anthropic")


@pytest.mark.parametrize(
    ("model", "least"),
    [
        ("claude-opus-4-5-20251101", 4_096),
        ("anthropic/claude-opus-4.6", 4_096),
        ("claude-opus-4-7", 4_096),
        ("claude-haiku-4-5-20251001", 4_096),
        ("claude-3-haiku-20240307", 2_048),
        ("claude-3-5-haiku-20241022", 2_048),
        ("claude-sonnet-4-5-20250929", 1_024),
        ("claude-opus-4-1", 1_024),
        ("", 1_024),
    ],
)
def test_the_minimum_goes_by_model(model, least):
    """BILL-4, BILL-7: one token below the minimum nothing is cached, at it everything is."""
    assert PROFILES["anthropic-5m"].least(model) == least
    short, enough = blocks(least - 1), blocks(least)
    assert play("anthropic-5m", *[record(short, [-1], model=model)] * 2).figures == [(0, 0, least - 1)] * 2
    assert play("anthropic-5m", *[record(enough, [-1], model=model)] * 2).figures == [(0, least, 0), (least, 0, 0)]


def test_without_marks_nothing_is_cached():
    """BILL-7."""
    prompt = blocks(5_000, 5_000)
    for marks in (None, []):
        assert play("anthropic-5m", *[record(prompt, marks)] * 2).figures == [(0, 0, 10_000)] * 2


def test_a_moving_mark_reads_the_last_prompt_and_writes_the_rest():
    """BILL-7: entries at every mark; behind the last mark input is uncached."""
    first = blocks(2_000, 3_000)
    grown = first + blocks(400, 600, 50, name="n")
    got = play("anthropic-5m", record(first, [0, -1]), record(grown, [0, -2]))
    assert got.figures == [(0, 5_000, 0), (5_000, 1_000, 50)]
    changed = (first[0], block("other", 3_000))
    got = play("anthropic-5m", record(first, [0, -1]), record(changed, [0, -1]))
    assert got.figures == [(0, 5_000, 0), (2_000, 3_000, 0)]
    assert got.misses == ["first", "changed"]


@pytest.mark.parametrize(("added", "read"), [(19, 4_000), (20, 4_000), (21, 2_000)])
def test_an_entry_is_found_twenty_blocks_back(added, read):
    """BILL-7: from block 20 before the mark on, not from block 21; the system's mark is still found."""
    first = blocks(2_000, 2_000)
    grown = first + blocks(*[10] * added, name="n")
    got = play("anthropic-5m", record(first, [0, -1]), record(grown, [0, -1]))
    assert got.figures[1] == (read, 4_000 + 10 * added - read, 0)
    assert got.misses[1] == ("" if read == 4_000 else "unfound")


@pytest.mark.parametrize(
    ("name", "life"), [("anthropic-5m", 300), ("anthropic-1h", 3_600), ("openai", 600), ("openai-write", 1_800),
                       ("deepseek", 86_400)],
)  # fmt: skip
def test_an_entry_lives_its_lifetime_and_a_read_refreshes_it(name, life):
    """BILL-6, BILL-2: exactly the lifetime is still alive, one ms more is not; clocks that run back change nothing."""
    prompt, ms = blocks(5_120), life * 1_000
    at = [10_000, 10_000 + ms, 5_000, 10_000 + 2 * ms, 10_001 + 3 * ms, 0]
    got = play(name, *[record(prompt, [-1], one) for one in at])
    assert [read for read, _, _ in got.figures] == [0, 5_120, 5_120, 5_120, 0, 5_120]
    assert got.misses == ["first", "", "", "", "expired", ""]


def test_a_mark_on_an_entry_refreshes_it():
    """BILL-6: the system's entry lives on while longer ones are read."""
    system, tail = block("system", 2_000), blocks(1_000)
    other = blocks(1_000, name="other")
    got = play(
        "anthropic-5m",
        record((system, *tail), [0, -1], 1_000),
        record((system, *tail), [0, -1], 301_000),
        record((system, *other), [0, -1], 601_000),
        record((system, *tail), [0, -1], 601_001),
    )
    assert [read for read, _, _ in got.figures] == [0, 3_000, 2_000, 2_000]


def test_another_model_has_another_cache():
    """BILL-5."""
    prompt = blocks(5_120)
    for name in PROFILES:
        got = play(name, *[record(prompt, [-1], model=model) for model in ("m", "n", "m")])
        assert [read for read, _, _ in got.figures] == [0, 0, 5_120]
        assert got.misses == ["first", "model", "model"]


def test_sessions_share_a_prefix():
    """BILL-2: a fork reads what its parent wrote; BILL-5: only an equal prefix is an entry, not an equal block."""
    prompt = blocks(3_000, 1_000)
    got = play("anthropic-5m", record(prompt, [0, 1]), record(prompt, [0, 1], session="fork"))
    assert got.figures == [(0, 4_000, 0), (4_000, 0, 0)]
    assert play("anthropic-5m", record(prompt, [1]), record(prompt[1:], [0])).figures[1] == (0, 0, 1_000)


def test_marks_no_provider_takes_are_refused():
    """BILL-7: five marks, or marks out of order or range; and counts below 0, and a refused record."""
    prompt = blocks(*[1_000] * 6)
    provider = Provider(PROFILES["anthropic-5m"])
    for marks in ((0, 1, 2, 3, 4), (3, 1), (1, 1), (6,), (-1,)):
        with pytest.raises(InputError, match=r"mark|breakpoints"):
            provider.answer(replace(record(prompt), breakpoints=marks))
    for wrong in (record([("0", 4, -1)]), record([("0", -4, 1)]), record(prompt, output_tokens=-1)):
        with pytest.raises(InputError):
            provider.answer(wrong)
    with pytest.raises(InputError, match="never sent"):
        provider.answer(record(prompt, kind="refused"))
    assert provider.answer(record(prompt, [-1])).written == 6_000


def test_openai_reads_whole_steps_from_1024_on():
    """BILL-8: 1,150 tokens are 8 steps of 128; below 1,024 nothing; the block that changed is not read."""
    prompt = blocks(1_000, 150)
    got = play("openai", record(prompt), record(prompt + blocks(500, name="n"), [0, 1]))
    assert got.figures == [(0, 1_024, 126), (1_024, 512, 114)]
    assert play("openai", *[record(blocks(1_023))] * 2).figures == [(0, 0, 1_023)] * 2
    assert play("openai", record(prompt), record((prompt[0], block("x", 150)))).figures[1] == (0, 1_024, 126)
    longer = blocks(1_300, 700)
    assert play("openai", record(longer), record((longer[0], block("x", 700)))).figures[1] == (1_280, 640, 80)


def test_deepseek_caches_the_answer():
    """BILL-8, BILL-9: figures of a recorded session: 1,742 and 93 out, then 2,104 and 54 out, then 2,865."""
    first = blocks(1_742)
    second = first + blocks(60, 302, name="n")
    third = second + blocks(761, name="m")
    got = play("deepseek", record(first, output_tokens=93), record(second, output_tokens=54), record(third))
    assert [read for read, _, _ in got.figures] == [0, 1_792, 2_112]
    assert got.figures[0] == (0, 1_728, 14)
    assert play("deepseek", *[record(blocks(63))] * 2).figures == [(0, 0, 63)] * 2
    # the answer stands behind the whole prompt only, and never reaches past the next one
    assert play("deepseek", record(first, output_tokens=640), record((*first, block("y", 10)))).figures[1][0] == 1_728
    changed = (block("z", 100), *first)
    assert play("deepseek", record(first, output_tokens=93), record(changed)).figures[1][0] == 0


def test_openai_write_has_an_entry_at_the_newest_message():
    """BILL-10: the longest entry on the path, at any distance; a changed end falls back to an older one or a mark."""
    first = blocks(2_000, 1_000)
    grown = first + blocks(*[10] * 40, name="n")
    got = play("openai-write", record(first), record(grown), record((*grown[:-1], block("x", 10))))
    assert got.figures == [(0, 3_000, 0), (3_000, 400, 0), (3_000, 400, 0)]
    other = (first[0], block("x", 1_000))
    assert play("openai-write", record(first), record(other)).figures[1] == (0, 3_000, 0)
    assert play("openai-write", record(first, [0, -1]), record(other)).figures[1] == (2_000, 1_000, 0)
    assert play("openai-write", *[record(blocks(1_023), [-1])] * 2).figures == [(0, 0, 1_023)] * 2


def test_openai_write_counts_three_marks():
    """BILL-10: the newest message has its own entry, of other marks the first three count."""
    prompt = blocks(*[1_100] * 6)
    probe = [record((*prompt[: cut + 1], block("x", 9)), at=2_000) for cut in range(4)]
    reads = [play("openai-write", record(prompt, [0, 1, 2, 3, 5]), one).figures[1][0] for one in probe]
    assert reads == [1_100, 2_200, 3_300, 3_300]


@pytest.mark.slow
@pytest.mark.parametrize("name", PROFILES)
def test_nothing_is_lost_between_read_written_and_uncached(name):
    """BILL-11: on random logs, for every request."""
    seen = 0
    for seed in range(60):
        provider = Provider(PROFILES[name])
        for one in random_log(seed):
            if one.kind == "refused":
                continue
            usage = provider.answer(one)
            assert min(usage.read, usage.written, usage.uncached) >= 0
            assert usage.read + usage.written + usage.uncached == one.tokens == usage.prompt
            assert usage.cached == usage.read + usage.written
            seen += usage.read > 0
    assert seen > 50

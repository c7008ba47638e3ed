"""Wire logs as files."""

import json

import pytest

from foldlog.adapters.billing.records import dump, dumps, load, loads, stand_in, with_front
from foldlog.domain.errors import InputError
from support.wire_logs import block, blocks, random_log, record


def test_a_dumped_log_loads_equal(tmp_path):
    """BILL-1."""
    log = [one for seed in range(5) for one in random_log(seed)]
    log.append(record(blocks(5), [0], divergence=0, reasons=("host_revised",)))
    dump(tmp_path / "log.jsonl", log)
    assert load(tmp_path / "log.jsonl") == log


def test_a_line_has_the_members_of_a_wire_log():
    """BILL-1: in their order; what is absent is left out, what is unknown is null."""
    line = json.loads(dumps(record([block("a", 3)], output_tokens=None)))
    assert list(line) == ["session", "at", "model", "level", "blocks", "breakpoints", "output_tokens", "kind"]
    assert (line["breakpoints"], line["output_tokens"], line["blocks"][0][1:]) == (None, None, [12, 3])
    assert list(json.loads(dumps(record([block("a", 3)], divergence=0))))[-1] == "divergence"


def test_the_shape_of_issue_2_is_read():
    """BILL-1: with members that are not ours, and blank lines."""
    line = b'{"session":"x","at":5,"model":"m","level":"hard","blocks":[["00ff",9,2]],"breakpoints":[0],"new":1}'
    (got,) = loads([b"\n", line, b""])
    assert (got.session, got.at, got.blocks, got.breakpoints, got.kind) == ("x", 5, (("00ff", 9, 2),), (0,), "main")
    assert (got.output_tokens, got.divergence, got.reasons, got.tokens) == (None, None, (), 2)


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b'{"session":1}', b"\xff", b'{"session":"x","blocks":[[1,2]]}', b"[" * 5_000]
)
def test_a_broken_line_is_named(tmp_path, line):
    """BILL-1."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(dumps(record(blocks(1))) + b"\n" + line + b"\n")
    with pytest.raises(InputError, match=r"log\.jsonl:2: "):
        load(path)
    for call in (lambda: load(tmp_path), lambda: load(tmp_path / "none"), lambda: dump(tmp_path, [])):
        with pytest.raises(InputError):
            call()


def test_the_stand_in_for_the_system_comes_first():
    """BILL-3: marks and divergence move with it; added calls keep their own system."""
    front = stand_in(30_000)
    assert [tokens for _, _, tokens in front] == [30_000]
    assert stand_in(0) == ()
    assert stand_in(30_000) == front != stand_in(30_001)
    given = [
        record(blocks(5, 6), [0, 1], divergence=1), record(blocks(5), kind="refused"),
        record(blocks(5), kind="summary"),
    ]  # fmt: skip
    main, refused, call = with_front(given, front)
    assert (main.blocks, main.breakpoints, main.divergence) == (front + given[0].blocks, (1, 2), 2)
    assert (refused.blocks, refused.breakpoints) == (front + given[1].blocks, None)
    assert call == given[2]
    assert list(with_front(given, ())) == given

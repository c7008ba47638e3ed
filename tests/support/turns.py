"""A few turns of every kind, in the messages of every host."""

from __future__ import annotations

from foldlog.adapters.traces.shapes import Called, Returned, Said
from support.hosts import WRITERS, Round

CODECS = list(WRITERS)
NOW = 1_750_000_000.0


def rounds(count: int) -> list[Round]:
    """Return turns of all kinds: an opening, then answers with words, with calls, with both."""
    made = [Round(0, int(NOW * 1000), (), "", (), (), (Said("begin"),))]
    for n in range(1, count):
        tools = n % 3 != 1
        calls = (Called(f"c{n}", "read_file", {"path": f"f{n}"}), Called(f"d{n}", "bash", {"command": f"x{n}"}))
        results = (Returned(f"c{n}", "read_file", f"file {n}"), Returned(f"d{n}", "bash", f"out {n}"))
        asked = () if n % 3 == 2 else (Said(f"prompt {n}"),)
        made.append(
            Round(n, int(NOW * 1000), (), f"answer {n}", calls if tools else (), results if tools else (), asked)
        )
    return made


def arrays(codec: str, count: int) -> list[list[bytes]]:
    """Return what a host hands over on each of its calls: each array goes on behind the one before."""
    found: list[list[bytes]] = [[]]
    for one in rounds(count):
        found.append([*found[-1], *WRITERS[codec](one, len).messages])
    return found[1:]

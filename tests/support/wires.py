"""What hosts really sent through a proxy, where the recordings are at hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

SAMPLES = Path(__file__).resolve().parents[2] / ".." / "shared" / "hosts" / "samples"
RUNS = (
    "claude-code/wire_agent332", "claude-code/wire_bare332", "claude-code/wire_default332",
    "claude-code/wire_mcp_nosearch", "claude-code/wire_toolong332", "claude-code/wire_turn1",
    "claude-code/wire_turn2", "codex/wire_a", "omp/wire_omp_ant", "opencode/wire_anthropic",
    "opencode/wire_openai", "opencode/wire_serve", "opencode/wire_v2api", "pi/wire_ant",
)  # fmt: skip


class Sent(msgspec.Struct, frozen=True):
    """One recorded request."""

    name: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def raw(self) -> bytes:
        return json.dumps(self.body, separators=(",", ":"), ensure_ascii=False).encode()


def sent(run: str) -> Iterator[Sent]:
    """Yield the requests of a run in order; skips the test where the recordings are absent."""
    folder = SAMPLES / run
    if not folder.is_dir():
        pytest.skip("the recorded requests of the hosts are not at hand")
    for file in sorted(folder.glob("*.json")):
        value = json.loads(file.read_text())
        yield Sent(file.name, value["path"], value["headers"], value["body"])

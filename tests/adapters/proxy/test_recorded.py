"""What the five hosts really sent, once more through the proxy, to the scripted provider that keeps a real cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from e2e import measure, recording
from e2e.provider import record
from e2e.provider.app import make_app
from e2e.provider.scenario import Scenario

from foldlog import Engine
from foldlog.adapters.config import Config
from foldlog.projections.timeline import timeline
from support.proxy import serving

FOLDER = Path(__file__).parent / "recorded"
FILES = sorted(FOLDER.glob("*.z"))
KEY = "sk-planted-key-0000"


def test_all_five_hosts_are_recorded():
    assert [file.stem for file in FILES] == ["claude-code", "codex", "omp", "opencode", "pi"]
    for file in FILES:
        assert KEY.encode() not in b"".join(sent.body + str(sent.headers).encode() for sent in recording.read(file))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_a_host_sent_goes_through_again(file: Path, tmp_path: Path) -> None:
    """Every request is valid, a deferred pass changes nothing before it, the log knows the provider's figures."""
    sent = recording.read(file)
    assert len(sent) >= 20
    scripted = make_app(Scenario(tracks={"main": ()}, minimum=64), tmp_path)  # the recorded prompts are cut short
    upstream = httpx.AsyncClient(transport=httpx.ASGITransport(scripted))
    nowhere = "http://provider.invalid"
    config = Config.model_validate(
        {
            "upstreams": {"anthropic": nowhere, "openai": nowhere, "chatgpt": nowhere},
            "models": {"*": {"context": 24_000, "output": 1_000}},
            "policy": {"protected_tokens": 2_000},
        }
    )
    engine = Engine.open("memory:")
    with serving(config, engine, client=upstream) as proxy:
        for one in sent:
            answer = proxy.client.post(one.path, content=one.body, headers=_headers(one))
            assert answer.status_code == 200, answer.text[:500]
        proxy.settle()
        rows = _rows(engine)
    records = record.read(tmp_path)
    assert len(records) == len(sent)
    assert [each.message for each in records if each.failure] == []
    asked = measure.by_count(records, rows)
    assert len(asked) >= 20
    assert [each.record.n for each in asked if each.row is None] == [], "the log knows other figures than the provider"
    levels = [each.row.level for each in asked if each.row]
    assert levels[0] == "hard"
    assert {"defer"} < set(levels), "nothing was rebuilt"
    changed = [each for each in asked if each.changed and each.row and each.row.level == "defer"]
    assert [(each.record.n, each.row) for each in changed if each.row and not each.row.divergence] == []
    assert [each.record.n for each in asked if each.cause == "unexplained"] == []


def _headers(one: recording.Sent) -> dict[str, str]:
    key = {"x-api-key": KEY} if one.path.startswith("/v1/messages") else {"authorization": f"Bearer {KEY}"}
    return {"content-type": "application/json", **one.headers, **key}


def _rows(engine: Engine) -> list[Any]:
    return [row for stream, _ in engine.sessions() for row in timeline(engine.log, engine.find(stream))]

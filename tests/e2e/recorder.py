"""Makes the recordings ``make test`` replays: what each host sends through the proxy in a session of two turns.

``PYTHONPATH=tests python -m e2e.recorder [HOST …]`` plays and writes; with ``TARGET FILE PORT`` it is the small server
 between host and proxy that it uses. Long texts of the hosts' own (system prompts, descriptions of tools,
reminders) are cut to their beginnings: the shapes are recorded, not the texts.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from e2e import recording, scripts
from e2e.stage import stage
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

HOSTS = ("claude", "codex", "opencode", "pi", "omp")
FOLDER = Path(__file__).resolve().parents[1] / "adapters" / "proxy" / "recorded"
KEPT = 90
"""Characters that are kept of a host's own text."""
STEPS, STOP = 30, 18
_HOP = {"host", "content-length", "connection", "transfer-encoding", "content-encoding", "accept-encoding"}


def shortened(value: Any, *, own: bool = False) -> Any:
    """Return a request with the host's own long texts cut. ``own``: everything below is the host's."""
    if isinstance(value, dict):
        ours = own or value.get("role") in {"system", "developer"}
        return {
            key: shortened(inner, own=ours or key in {"system", "tools", "instructions"})
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [shortened(inner, own=own) for inner in value]
    if isinstance(value, str) and len(value) > 2 * KEPT and (own or value.lstrip().startswith("<system-reminder>")):
        spoken = "" if own else value.rpartition("</system-reminder>")[2]  # the person's words may stand behind one
        return f"{value[:KEPT]}… [{len(value)} characters]{spoken}"
    return value


def make_app(target: str, file: Path) -> Starlette:
    """Return the server that forwards to ``target`` and writes ``file`` anew with each request."""
    client = httpx.AsyncClient(base_url=target, timeout=120, trust_env=False)
    sent: list[recording.Sent] = []

    async def forward(request: Request) -> StreamingResponse:
        body = await request.body()
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        if request.method == "POST":
            short = json.dumps(shortened(json.loads(body)), ensure_ascii=False, separators=(",", ":")).encode()
            sent.append(recording.Sent(path, recording.harmless(request.headers.items()), short))
            recording.write(file, sent)
        headers = [(name, value) for name, value in request.headers.items() if name not in _HOP]
        asked = client.build_request(request.method, path, content=body, headers=headers)
        answer = await client.send(asked, stream=True)

        async def pieces() -> AsyncIterator[bytes]:
            try:
                async for piece in answer.aiter_bytes():
                    yield piece
            finally:
                await answer.aclose()

        kept = {name: value for name, value in answer.headers.items() if name not in _HOP}
        return StreamingResponse(pieces(), answer.status_code, kept)

    return Starlette(routes=[Route("/{path:path}", forward, methods=["GET", "POST", "HEAD", "DELETE"])])


def record(name: str) -> None:
    """Play one host through recorder and proxy, and keep what it sent."""
    host = importlib.import_module(f"e2e.hosts.{name}")
    root = Path(tempfile.mkdtemp(prefix="recording-")) / "r"
    script = lambda work: scripts.long(work, host.WINDOW, steps=STEPS, stop=STOP)  # noqa: E731
    with stage(root, host, script, managed=False) as made:
        made.through_proxy()
        if host.TOOLS_BY_MCP:
            made.setup(host.NAME)
        FOLDER.mkdir(exist_ok=True)
        host.prepare(made.room, made.recorded(FOLDER / f"{host.NAME}.z"))
        first = made.play(scripts.PROMPT.format(track="main", step=0))
        second = made.play(scripts.PROMPT.format(track="main", step=STOP + 1), host.session_of(first))
        assert host.said(second) == "The list is done.", (first.err, second.err)
    file = FOLDER / f"{host.NAME}.z"
    print(f"{host.NAME}: {len(recording.read(file))} requests, {file.stat().st_size:,} bytes")


def main() -> None:
    """Record, or serve as the recorder."""
    given = sys.argv[1:]
    if len(given) == 3 and given[2].isdigit():
        app = make_app(given[0], Path(given[1]))
        uvicorn.run(app, host="127.0.0.1", port=int(given[2]), log_level="critical", timeout_graceful_shutdown=1)
        return
    for name in given or HOSTS:
        record(name)


if __name__ == "__main__":
    main()

"""A recorder between a host and foldlog: passes everything through and writes down what the host sent.

``python -m e2e.tee TARGET FILE PORT``. Only for making the recordings that ``make test`` replays.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import uvicorn
from e2e import recording
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

_HOP = {"host", "content-length", "connection", "transfer-encoding", "content-encoding"}


def make_app(target: str, file: Path) -> Starlette:
    """Return the recorder as an ASGI app that forwards to ``target`` and writes ``file`` anew after each request."""
    client = httpx.AsyncClient(base_url=target, timeout=120, trust_env=False)
    sent: list[recording.Sent] = []

    async def forward(request: Request) -> StreamingResponse:
        body = await request.body()
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        if request.method == "POST":
            sent.append(recording.Sent(path, recording.harmless(request.headers.items()), body))
            recording.write(file, sent)
        headers = [(name, value) for name, value in request.headers.items() if name not in _HOP]
        answer = await client.send(
            client.build_request(request.method, path, content=body, headers=headers), stream=True
        )

        async def pieces() -> AsyncIterator[bytes]:
            try:
                async for piece in answer.aiter_bytes():
                    yield piece
            finally:
                await answer.aclose()

        kept = {name: value for name, value in answer.headers.items() if name not in _HOP}
        return StreamingResponse(pieces(), answer.status_code, kept)

    methods = ["GET", "POST", "HEAD", "DELETE"]
    return Starlette(routes=[Route("/{path:path}", forward, methods=methods)])


if __name__ == "__main__":
    app = make_app(sys.argv[1], Path(sys.argv[2]))
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[3]), log_level="critical", timeout_graceful_shutdown=1)

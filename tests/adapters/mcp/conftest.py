"""A stand-in for the running proxy: it answers the tools' endpoint as told and keeps what it was asked."""

from __future__ import annotations

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from foldlog.adapters import local


class StandIn:
    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict]] = []
        self.answer: tuple[int, dict] = (200, {"text": "Queued: drop 1."})
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.asked.append((self.path, self.headers["authorization"], body))
                status, said = outer.answer
                raw = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.run = local.Run(self.server.server_address[1], os.getpid(), local.new_token(), "0")
        self.file = local.proxy_file(self.run.port)
        local.write(self.file, self.run)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
        self.file.unlink(missing_ok=True)


@pytest.fixture
def stand_ins():
    made: list[StandIn] = []

    def one() -> StandIn:
        made.append(StandIn())
        return made[-1]

    yield one
    for each in made:
        each.close()


@pytest.fixture
def proxy(stand_ins):
    return stand_ins()

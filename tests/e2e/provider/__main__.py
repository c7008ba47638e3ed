"""``python -m e2e.provider SCENARIO FOLDER PORT``: serve a scenario on loopback until a signal ends it."""

from __future__ import annotations

import sys
from pathlib import Path

import uvicorn

from .app import make_app
from .scenario import load


def main() -> None:
    """Serve; prints nothing but the server's own errors."""
    scenario, folder, port = sys.argv[1:4]
    app = make_app(load(Path(scenario)), Path(folder))
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="critical", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    main()

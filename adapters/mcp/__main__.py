"""``python -m foldlog.adapters.mcp``: the server over the standard streams, without loading every command."""

from __future__ import annotations

import sys

from ...domain.errors import FoldlogError
from ..config import load


def main() -> int:
    """Serve one client. Returns the exit code."""
    try:
        config = load()
        from .server import run_stdio
    except FoldlogError as error:
        sys.stderr.write(f"foldlog: {error}\n")
        return 2
    except ImportError as error:
        sys.stderr.write(f"foldlog: serving tools needs more packages ({error.name}): pip install 'foldlog[mcp]'\n")
        return 1
    run_stdio(config)
    return 0


if __name__ == "__main__":
    sys.exit(main())

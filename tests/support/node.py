"""Runs the plugins' JavaScript under Node, where the machine has one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

NODE = os.environ.get("FOLDLOG_NODE") or shutil.which("node") or shutil.which("bun") or ""
needs_node = pytest.mark.skipif(not NODE, reason="there is no node on this machine (FOLDLOG_NODE names one)")


def run(script: Path, given: Any, timeout: float = 60) -> Any:
    """Return what ``script`` wrote, as JSON, when it read ``given``."""
    done = subprocess.run(
        [NODE, str(script)], input=json.dumps(given), capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)

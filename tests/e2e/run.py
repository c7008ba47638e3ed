"""``make e2e``: the tests of all hosts, two hosts at a time, without a network where the machine allows, and a table.

``python tests/e2e/run.py [HOST …] [-- pytest arguments]``
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOSTS = ("opencode", "claude", "omp", "codex", "pi")
"""The slowest first: two run at a time."""
ALONE = "FOLDLOG_E2E_NO_NETWORK"
LIMIT_S = 660


def without_network() -> None:
    """Go on in a network namespace that has loopback only, where the machine allows one."""
    if os.environ.get(ALONE) or not shutil.which("unshare") or not shutil.which("ip"):
        return
    inside = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if subprocess.run([*inside, "true"], capture_output=True).returncode:
        inside = ["unshare", "--map-root-user", *inside[1:]]
        if subprocess.run([*inside, "true"], capture_output=True).returncode:
            print("no network namespace on this machine: the hosts run with whatever network there is")
            return
    os.environ[ALONE] = "1"
    os.execvp(inside[0], [*inside, sys.executable, *sys.argv])


def one(host: str, results: Path, rest: list[str]) -> tuple[str, int, float, str]:
    """Run one host's tests; returns its name, the exit code, the seconds it took and the output."""
    began = time.monotonic()
    environ = {**os.environ, "FOLDLOG_E2E_RESULTS": str(results), "PYTHONPATH": _path()}
    where = tempfile.mkdtemp(prefix=f"foldlog-e2e-{host}-")
    own = f"[{host}] or [{host}- or _of_{host}_"
    command = [sys.executable, "-m", "pytest", "-q", "-m", "e2e", "-k", own, f"--basetemp={where}/t"]
    try:
        done = subprocess.run(
            [*command, *rest, "tests/e2e"],
            cwd=ROOT,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
        )
        code, said = done.returncode, done.stdout
    except subprocess.TimeoutExpired as over:
        code, said = 124, f"{(over.stdout or b'').decode(errors='replace')}\n{host} took longer than {LIMIT_S} s"
    if not code:
        shutil.rmtree(where, ignore_errors=True)
    else:
        said += f"\nwhat the hosts left is in {where}"
    return host, code, time.monotonic() - began, said


def _path() -> str:
    return os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT / "tests"))))


def table(results: Path) -> Iterator[str]:
    """Yield the lines of the table."""
    head = ("host", "version", "foldlog", "steps", "folds", "cache hits", "between folds", "busts by cause")
    lines = [head]
    for file in sorted(results.glob("row-*.json")):
        row = json.loads(file.read_text(encoding="utf-8"))
        causes = ", ".join(f"{count} {name}" for name, count in sorted(row["causes"].items())) or "none"
        share, between = f"{row['share']:.1%}", f"{row['between']:.1%}"
        figures = (str(row["steps"]), str(row["folds"]), share, between, causes)
        lines.append((row["host"], row["version"], row["foldlog"], *figures))
    widths = [max(len(line[at]) for line in lines) for at in range(len(head) - 1)]
    for line in lines:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]])


def main() -> int:
    """Run, print, and say by the exit code whether all was well."""
    without_network()
    given = sys.argv[1:]
    cut = given.index("--") if "--" in given else len(given)
    hosts, rest = given[:cut] or list(HOSTS), given[cut + 1 :]
    began = time.monotonic()
    bad = []
    with tempfile.TemporaryDirectory(prefix="foldlog-e2e-") as folder:
        results = Path(folder)
        with ThreadPoolExecutor(max_workers=2) as pool:
            for host, code, seconds, said in pool.map(lambda host: one(host, results, rest), hosts):
                tail = next((line for line in reversed(said.splitlines()) if line.strip()), "")
                print(f"{host}: {tail}" if not code else said, f"({seconds:.0f} s)", flush=True)
                if code:
                    bad.append(host)
        print(*table(results), sep="\n")
    print(f"{len(hosts)} hosts in {time.monotonic() - began:.0f} s" + (f"; failed: {', '.join(bad)}" if bad else ""))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

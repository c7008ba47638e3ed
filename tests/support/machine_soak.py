"""``make soak``: the state machine for a given time, with new random examples in every round.

``FOLDLOG_SOAK_MINUTES``: how long (60); ``FOLDLOG_SOAK_PROCESSES``: how many at a time (as many as there are cores). A
run that fails is made shorter and stored in ``tests/property/corpus``, where `make test` replays it; the rounds go on.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import queue
import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hypothesis.stateful import run_state_machine_as_test
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from support.machine import fault, shrunk
from support.machine_rules import FAILED, TOTAL, FoldlogMachine, configured

CORPUS = Path(__file__).resolve().parents[1] / "property" / "corpus"
ROUND = 20
"""Examples of a round: after each, what it came to is told."""
SHRINKING = 180.0
"""Seconds a failing run is made shorter for."""
QUIET = 60.0
"""Seconds between two lines where nobody looks at a terminal."""


def round_of(examples: int, seconds: float = SHRINKING) -> dict[str, Any] | None:
    """Play new examples; return the story of the first that fails, shrunk, None where none does."""
    FAILED.clear()
    try:
        run_state_machine_as_test(FoldlogMachine, settings=configured(examples, fresh=True))
    except Exception as error:  # noqa: BLE001 - whatever comes out is what is looked for
        steps = list(FAILED)
        said = f"{type(error).__name__}: {error}" if not isinstance(error, AssertionError) else str(error)
        words = said.split("\nFailing test case")[0]
        rule = re.search(r"\b[A-Z]+-\d+\b", words)
        return {
            "law": rule[0] if rule else "PROP-11",
            "was": " ".join(words.split())[:300],
            "steps": shrunk(steps, seconds) if fault(steps) else steps,
        }
    return None


def store(story: dict[str, Any], folder: Path = CORPUS) -> Path:
    """Store a story as the corpus keeps them, one step a line; return where."""
    lines = ",\n".join(f"  {json.dumps(step)}" for step in story["steps"])
    law, was = (json.dumps(story[name], ensure_ascii=False) for name in ("law", "was"))
    name = f"found-{story['law'].lower()}-{hashlib.sha256(lines.encode()).hexdigest()[:8]}.json"
    path = folder / name
    path.write_text(f'{{\n "law": {law},\n "was": {was},\n "steps": [\n{lines}\n ]\n}}\n', encoding="utf-8")
    return path


def kind(story: dict[str, Any]) -> str:
    """Return what a story is about, whatever numbers and texts it is about it with: each kind is stored once."""
    return re.sub("[0-9]+", "", story["was"])[:60]


def work(end: float, told: Any) -> None:
    """Play rounds until ``end``; tell what each came to: its counts, and the story of what failed."""
    while time.time() < end:
        TOTAL.clear()
        story = round_of(ROUND)
        told.put((dict(TOTAL), story))


def main() -> int:
    """Run, show how it goes, and return 1 where something was found."""
    minutes = float(os.environ.get("FOLDLOG_SOAK_MINUTES", "60"))
    processes = int(os.environ.get("FOLDLOG_SOAK_PROCESSES", str(os.cpu_count() or 1)))
    begin = time.time()
    end = begin + minutes * 60
    context = multiprocessing.get_context("spawn")
    told: Any = context.Queue()
    workers = [context.Process(target=work, args=(end, told), daemon=True) for _ in range(processes)]
    for worker in workers:
        worker.start()
    counts: Counter[str] = Counter()
    found: dict[str, Path] = {}
    console = Console()
    spoken = begin
    with Progress(*Progress.get_default_columns()[:2], TimeElapsedColumn(), TextColumn("{task.fields[said]}"),
                  console=console) as progress:  # fmt: skip
        task = progress.add_task("soak", total=minutes * 60, said="")
        while any(worker.is_alive() for worker in workers) or not told.empty():
            try:
                more, story = told.get(timeout=1)
            except queue.Empty:
                more, story = {}, None
            counts.update(more)
            if story is not None and kind(story) not in found:
                found[kind(story)] = store(story)
                console.print(f"found: {story['was']}\n  {found[kind(story)]}", markup=False)
            said = f"{counts['examples']} examples, {counts['audited']} requests, {len(found)} found"
            progress.update(task, completed=min(time.time() - begin, minutes * 60), said=said)
            if not console.is_terminal and time.time() - spoken > QUIET:
                spoken = time.time()
                print(f"{(spoken - begin) / 60:.0f} of {minutes:.0f} minutes: {said}", flush=True)
    print(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    print(f"{counts['examples']} examples in {(time.time() - begin) / 60:.0f} minutes: ", end="")
    print(f"{len(found)} failures stored in {CORPUS}" if found else "nothing found")
    broken = any(worker.exitcode for worker in workers)
    return 1 if found or broken else 0


if __name__ == "__main__":
    sys.exit(main())

"""No module of ours is loaded under two names: two copies would have two sets of classes and of errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.house import ROOT, dotted, loaded_twice, module_files

PLUGIN = """
import json, os, sys

def pytest_sessionfinish(session):
    loaded = [(name, getattr(module, "__file__", None) or "") for name, module in list(sys.modules.items())]
    with open(os.environ["LOADED_INTO"], "w") as file:
        json.dump({"collected": session.testscollected, "loaded": loaded}, file)
"""


def now_loaded():
    return [(name, getattr(module, "__file__", None) or "") for name, module in list(sys.modules.items())]


def test_every_module_can_be_imported_and_is_loaded_once(tmp_path: Path):
    names = [dotted(path) for path in module_files() if path.name != "__main__.py"]
    code = (
        "import importlib, json, sys\n"
        "for name in json.loads(sys.argv[1]): importlib.import_module(name)\n"
        "print(json.dumps([(n, getattr(m, '__file__', None) or '') for n, m in list(sys.modules.items())]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(names)], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert set(names) <= {name for name, _ in loaded}
    assert loaded_twice(loaded) == {}


def test_the_root_loads_its_rooms_only_when_asked(tmp_path: Path):
    """pytest imports the root under the checkout's name: were it eager, that would load every room a second time."""
    code = (
        "import sys, foldlog\n"
        "print([name for name in sys.modules if name.startswith('foldlog.')])\n"
        "print(hasattr(foldlog, 'setup_module'), hasattr(foldlog, 'Engine'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["[]", "False True"], done.stderr


@pytest.mark.slow
def test_pytest_from_the_root_loads_nothing_twice(tmp_path: Path):
    """``python -m pytest`` puts the root on the path, where every room could be imported by its bare name."""
    (tmp_path / "loaded_probe.py").write_text(PLUGIN, encoding="utf-8")
    into = tmp_path / "loaded.json"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests", "--collect-only", "-q", "-ploaded_probe", "-pno:cacheprovider"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "LOADED_INTO": str(into)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    seen = json.loads(into.read_text(encoding="utf-8"))
    assert seen["collected"] > 0
    assert loaded_twice(seen["loaded"]) == {}


def test_this_process_has_loaded_nothing_twice():
    assert loaded_twice(now_loaded()) == {}


def test_two_names_of_one_file_are_found():
    events, root = str(ROOT / "domain" / "events.py"), str(ROOT / "__init__.py")
    assert loaded_twice([("foldlog.domain.events", events), ("foldlog", root), ("main", root)]) == {}
    assert loaded_twice([("foldlog.domain.events", events), ("domain.events", events)]) == {
        "domain/events.py": ["domain.events", "foldlog.domain.events"]
    }
    assert loaded_twice([("domain.events", events)]) == {"domain/events.py": ["domain.events"]}
    room = str(ROOT / "domain" / "__init__.py")
    assert loaded_twice([("main.domain", room)]) == {"domain/__init__.py": ["main.domain"]}

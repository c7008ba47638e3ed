"""The import column of the house: each room imports only what it may."""

from __future__ import annotations

import ast

import pytest

from support.house import ROOT, dotted, file_imports, imports, module_files, resolve, room_folders

MAY = {
    "domain": {"domain"},
    "projections": {"domain", "projections"},
    "storage": {"domain", "storage"},
    "engine": {"domain", "projections", "storage.protocol"},
}
"""Room -> what of ours it may import. A further module in the root is held to what the engine may."""
FREE = {"adapters", "api", "__init__"}
"""The adapters, and the public doors: who opens an engine gets a store, a tokenizer and a summariser with it."""

WORLD = {
    "asyncio", "concurrent", "glob", "http", "io", "locale", "logging", "multiprocessing", "os", "pathlib", "platform",
    "platformdirs", "psycopg", "random", "requests", "rich", "secrets", "selectors", "shutil", "signal", "socket",
    "sqlite3", "ssl", "starlette", "structlog", "subprocess", "sys", "tempfile", "threading", "tiktoken", "time",
    "typer", "urllib", "uuid", "uvicorn", "eventsourcing", "httpx", "importlib",
}  # fmt: skip
"""What touches clock, files, network, processes, randomness or tokenizers: not for pure rooms (law 2)."""
EXCEPTED = {("foldlog.projections.wire", "importlib")}
"""The digest of a wire version is over its own source, which only audit asks for: no rendering reads it."""
CLOCK_CALLS = {"now", "utcnow", "today"}


def room_of(module: str) -> str:
    """``foldlog.storage.protocol`` -> ``storage``; the root is ``__init__``, what else lies there the engine's."""
    parts = module.split(".")[1:]
    if not parts:
        return "__init__"
    if parts[0] in {folder.name for folder in room_folders()} or parts[0] in FREE:
        return parts[0]
    return "engine"


def allowed(room: str, target: str) -> bool:
    """May a module of ``room`` import ``target`` (``foldlog.…``)?"""
    if room in FREE:
        return True
    name = target.removeprefix("foldlog").removeprefix(".")
    if room == "engine" and room_of(target) == "engine":
        return True
    return any(name == may or name.startswith(may + ".") for may in MAY[room])


@pytest.mark.parametrize("path", module_files(), ids=dotted)
def test_a_module_imports_only_what_its_room_may(path):
    module = dotted(path)
    room = room_of(module)
    own_rooms = {folder.name for folder in room_folders()}
    wrong = []
    for line, target, relative in file_imports(path):
        first = target.split(".")[0]
        if not relative:
            if first in own_rooms | {"foldlog", "engine"}:
                wrong.append(f"{path}:{line} imports {target} absolutely; inside the package imports are relative")
        elif first != "foldlog":
            wrong.append(f"{path}:{line} reaches outside the package")
        elif not allowed(room, target):
            wrong.append(f"{path}:{line} is in {room}, which may not import {target}")
    assert not wrong, "\n".join(wrong)


def pure_files():
    return [path for path in module_files() if room_of(dotted(path)) in {"domain", "projections"}]


@pytest.mark.parametrize("path", pure_files(), ids=dotted)
def test_a_pure_room_touches_nothing_of_the_world(path):
    wrong = [
        f"{path}:{line} imports {target}"
        for line, target, relative in file_imports(path)
        if not relative and (first := target.split(".")[0]) in WORLD and (dotted(path), first) not in EXCEPTED
    ]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute) and node.func.attr in CLOCK_CALLS and not node.args:
            wrong.append(f"{path}:{node.lineno} reads a clock")
        elif isinstance(node.func, ast.Name) and node.func.id in {"open", "input", "print"}:
            wrong.append(f"{path}:{node.lineno} calls {node.func.id}()")
    assert not wrong, "\n".join(wrong)


def test_tests_import_the_package_by_its_name():
    """A test that imports ``domain`` instead of ``foldlog.domain`` would load the module a second time."""
    own = {folder.name for folder in room_folders()} | {p.stem for p in ROOT.glob("*.py")}
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {target}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line, target, relative in imports(path.read_text(encoding="utf-8"), "tests.x", False)
        if not relative and target.split(".")[0] in own
    ]
    assert not wrong, "\n".join(wrong)


def test_the_package_has_all_its_rooms():
    assert {"domain", "projections", "storage", "adapters"} <= {folder.name for folder in room_folders()}


@pytest.mark.parametrize(
    ("room", "target", "may"),
    [
        ("domain", "foldlog.domain.events", True),
        ("domain", "foldlog.projections.view", False),
        ("domain", "foldlog.storage.protocol", False),
        ("projections", "foldlog.domain.events", True),
        ("projections", "foldlog.storage.protocol", False),
        ("storage", "foldlog.projections.view", False),
        ("engine", "foldlog.storage.protocol.Log", True),
        ("engine", "foldlog.storage.stores", False),
        ("engine", "foldlog.storage", False),
        ("engine", "foldlog.adapters.cli", False),
        ("engine", "foldlog.api", False),
        ("api", "foldlog.engine", True),
        ("api", "foldlog.adapters.historian", True),
        ("api", "foldlog.storage.protocol", True),
        ("adapters", "foldlog.engine", True),
        ("domain", "foldlog.domainish", False),
    ],
)
def test_the_table_decides_as_written(room, target, may):
    assert allowed(room, target) is may


def test_imports_are_seen_wherever_they_stand():
    source = "import os\ndef f():\n    from ..domain import events\nfrom . import codec\nfrom .a.b import c\n"
    assert list(imports(source, "foldlog.storage.log", False)) == [
        (1, "os", False),
        (4, "foldlog.storage.codec", True),
        (5, "foldlog.storage.a.b.c", True),
        (3, "foldlog.domain.events", True),
    ]
    assert resolve("foldlog.storage", True, 1, "log") == "foldlog.storage.log"
    assert resolve("foldlog.storage.log", False, 3, "x") == "<outside>"

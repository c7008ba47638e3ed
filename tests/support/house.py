"""What the house tests ask of the checkout: its folders, modules, imports and rule ids, read and never imported."""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NOT_ROOMS = {"tests", "specs", "scripts", "build", "dist"}


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@functools.cache
def room_folders() -> tuple[Path, ...]:
    """The top-level folders that hold the package's code."""
    return tuple(
        folder
        for folder in sorted(ROOT.iterdir())
        if folder.is_dir()
        and folder.name not in NOT_ROOMS
        and not folder.name.startswith((".", "_"))
        and not folder.name.endswith(".egg-info")
        and any(folder.rglob("*.py"))
    )


@functools.cache
def module_files() -> tuple[Path, ...]:
    """Every source file of the package, the root's own modules first."""
    files = sorted(ROOT.glob("*.py"))
    for room in room_folders():
        files += sorted(path for path in room.rglob("*.py") if "__pycache__" not in path.parts)
    return tuple(files)


def dotted(path: Path) -> str:
    """``domain/passes/window.py`` -> ``foldlog.domain.passes.window``; an ``__init__.py`` is its package."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(["foldlog", *parts])


def resolve(module: str, is_package: bool, level: int, name: str | None) -> str:
    """Return the absolute name a relative import of ``module`` means."""
    base = module.split(".")
    drop = level - 1 if is_package else level
    if drop >= len(base):
        return "<outside>"
    kept = base[: len(base) - drop]
    return ".".join([*kept, name] if name else kept)


def imports(source: str, module: str, is_package: bool) -> Iterator[tuple[int, str, bool]]:
    """Yield (line, absolute name, relative?) of every import, wherever in the file it stands.

    ``from . import x`` is told as ``….x``: what is imported may be a module.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, False
        elif isinstance(node, ast.ImportFrom):
            if not node.level:
                yield node.lineno, node.module or "", False
                continue
            target = resolve(module, is_package, node.level, node.module)
            for alias in node.names:
                yield node.lineno, f"{target}.{alias.name}", True


@functools.cache
def file_imports(path: Path) -> tuple[tuple[int, str, bool], ...]:
    return tuple(imports(path.read_text(encoding="utf-8"), dotted(path), path.name == "__init__.py"))


# ------------------------------------------------------------------ loaded twice


def loaded_twice(loaded: Iterable[tuple[str, str]], root: Path = ROOT) -> dict[str, list[str]]:
    """Return the package's files that are loaded under a name other than their own, with all names they have.

    ``loaded``: (module name, file). The root's ``__init__.py`` is left out: pytest imports it under the checkout's
    name, which is why it is lazy.
    """
    names: dict[str, set[str]] = {}
    for name, file in loaded:
        path = Path(file)
        if path.suffix == ".py" and path.is_relative_to(root):
            names.setdefault(path.relative_to(root).as_posix(), set()).add(name)
    found = {}
    for file, known in names.items():
        if file == "__init__.py" or file.startswith((".", "tests/", "scripts/", "specs/")):
            continue
        own = dotted(root / file) if root == ROOT else ".".join(["foldlog", *Path(file).with_suffix("").parts])
        if known - {own, own + ".__init__"} or len(known) > 1:
            found[file] = sorted(known)
    return found


# ------------------------------------------------------------------------- rules

RULE = re.compile(r"\b([A-Z][A-Z0-9]*[A-Z])-(\d+)\b")
_DECLARED = re.compile(
    r"^(?:#{1,6}\s+|\s*[-*]\s+\*\*|\|\s*(?:\*\*)?)([A-Z][A-Z0-9]*[A-Z]-\d+)\b",
)
TRAP = re.compile(r"\bT[1-9]\d?\b")
"""The numbers of traps, which have no hyphen."""
_TRAP_ROW = re.compile(r"^\|\s*(T[1-9]\d?)\s*\|")
_TEST = re.compile(r"`(test_\w+)`")
NOT_RULES = {"SHA", "UTF", "ISO", "RFC", "GPT", "CVE", "BLAKE2", "ASCII", "IEEE"}
"""Prefixes of ordinary names that look like rule ids."""


def declared_rules(text: str) -> list[str]:
    """Return the rules a page of specs/ declares: ids that begin a heading, a bold list item or a table row."""
    found = []
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        match = None if fenced else _DECLARED.match(line)
        if match and match.group(1).split("-")[0] not in NOT_RULES:
            found.append(match.group(1))
        elif not fenced and (trap := _TRAP_ROW.match(line)):
            found.append(trap.group(1))
    return found


_NOT_OURS = re.compile(r"^\| ([A-Z]{2}-\d\d) \|[^|]+\| not ours: ([^|]+)\|$", re.MULTILINE)


def not_ours(page: str) -> dict[str, str]:
    """Return the public reports a page says cannot concern foldlog, each with the reason."""
    return {report: reason.strip() for report, reason in _NOT_OURS.findall(page)}


def proofs(text: str) -> dict[str, list[str]]:
    """Return id -> the tests its row names, of a page whose rows end with their tests."""
    rows = (line for line in text.splitlines() if declared_rules(line))
    return {declared_rules(row)[0]: _TEST.findall(row.rstrip().rstrip("|").rpartition("|")[2]) for row in rows}


def named_rules(source: str) -> set[str]:
    """Return the rules a test file names: in docstrings, in comments, and in ``rule("…")`` calls and marks."""
    said: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            said.append(ast.get_docstring(node) or "")
        elif isinstance(node, ast.Call):
            callee = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if callee == "rule":
                said += [str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            said.append(token.string)
    return {name for text in said for name in names_in(text)}


def names_in(text: str) -> set[str]:
    """Return the ids of rules and traps a text names."""
    rules = {match.group(0) for match in RULE.finditer(text) if match.group(1) not in NOT_RULES}
    return rules | set(TRAP.findall(text))


@functools.cache
def all_tests() -> Mapping[str, frozenset[str]]:
    """Test function -> the ids its docstring and marks name; of two of one name, those of both."""
    found: dict[str, frozenset[str]] = {}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                marks = (arg for mark in node.decorator_list if isinstance(mark, ast.Call) for arg in mark.args)
                said = [ast.get_docstring(node) or "", *(a.value for a in marks if isinstance(a, ast.Constant))]
                ids = {name for text in said if isinstance(text, str) for name in names_in(text)}
                found[node.name] = found.get(node.name, frozenset()) | ids
    return found


@functools.cache
def all_declared() -> Mapping[str, list[str]]:
    """Rule id -> the pages that declare it."""
    found: dict[str, list[str]] = {}
    for page in sorted((ROOT / "specs").rglob("*.md")):
        for rule in declared_rules(page.read_text(encoding="utf-8")):
            found.setdefault(rule, []).append(page.name)
    return found


@functools.cache
def all_named() -> Mapping[str, list[str]]:
    """Rule id -> the test files that name it. The house tests speak of rules and prove none: they are left out."""
    found: dict[str, list[str]] = {}
    for file in sorted((ROOT / "tests").rglob("*.py")):
        place = file.relative_to(ROOT / "tests")
        if place.parts[0] in {"house", "support"}:
            continue
        for rule in named_rules(file.read_text(encoding="utf-8")):
            found.setdefault(rule, []).append(place.as_posix())
    return found

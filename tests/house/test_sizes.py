"""Modules stay small, and hold no state of their own."""

from __future__ import annotations

import ast

import pytest

from support.house import dotted, module_files

LINES = 600
_FILLED_LATER = {"dict", "list", "set", "bytearray"}
_HELD = {
    "defaultdict", "deque", "Counter", "OrderedDict", "count", "Lock", "RLock", "local", "ContextVar",
    "WeakKeyDictionary", "WeakValueDictionary", "WeakSet",
}  # fmt: skip
_CACHES = {"cache", "lru_cache"}


def callee(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def module_state(source: str) -> list[str]:
    """Return what of a module could change while a program runs.

    A table that is written out is a constant; an empty container is there to be filled, a list could grow, and a
    ``global`` statement or a cache keeps something between calls.
    """
    tree = ast.parse(source)
    found = []
    for node in tree.body:
        value = getattr(node, "value", None)
        if not isinstance(node, ast.Assign | ast.AnnAssign) or value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            continue
        empty = isinstance(value, ast.Dict) and not value.keys
        filled_later = isinstance(value, ast.Call) and callee(value) in _FILLED_LATER and not value.args
        held = isinstance(value, ast.Call) and callee(value) in _HELD
        if empty or filled_later or held or isinstance(value, ast.List | ast.ListComp):
            found.append(f"line {node.lineno}: {ast.unparse(node)[:80]}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            found.append(f"line {node.lineno}: global {', '.join(node.names)}")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.args.args:
            found += [f"line {node.lineno}: {node.name} is cached" for d in node.decorator_list if callee(d) in _CACHES]
    return found


@pytest.mark.parametrize("path", module_files(), ids=dotted)
def test_a_module_is_not_too_long(path):
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= LINES, f"{path} has {lines} lines; split it by what its parts are about"


@pytest.mark.parametrize("path", module_files(), ids=dotted)
def test_a_module_holds_no_state(path):
    assert module_state(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "SEEN = {}",
        "SEEN: dict[str, int] = {}",
        "SEEN = set()",
        "SEEN = collections.defaultdict(list)",
        "NAMES = ['a']",
        "LOCK = threading.Lock()",
        "NEXT = itertools.count(1)",
        "N = 0\ndef f():\n    global N\n    N += 1",
        "@functools.lru_cache(maxsize=9)\ndef f(x):\n    return x",
    ],
)
def test_state_is_found(source):
    assert len(module_state(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "TABLE = {'a': 1}",
        "NAMES = ('a', 'b')",
        "KINDS = frozenset({'a'})",
        "__all__ = ['f']",
        "def f():\n    seen = {}\n    return seen",
        "@functools.cache\ndef encoding():\n    return load()",
    ],
)
def test_constants_are_left_alone(source):
    assert module_state(source) == []

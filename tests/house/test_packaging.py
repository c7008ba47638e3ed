"""What is installed is what is in the checkout."""

from __future__ import annotations

import fnmatch
import importlib.metadata
import re
import sys
from pathlib import Path

import pytest

from support.house import ROOT, dotted, file_imports, module_files, pyproject, room_folders

SETUPTOOLS = pyproject()["tool"]["setuptools"]


def code_folders():
    return sorted({path.parent for path in module_files()})


def test_the_package_list_equals_the_folders():
    assert sorted(SETUPTOOLS["packages"]) == sorted(dotted(folder / "__init__.py") for folder in code_folders())
    assert SETUPTOOLS["package-dir"] == {"foldlog": "."}


def test_every_code_folder_is_a_package():
    assert [str(folder) for folder in code_folders() if not (folder / "__init__.py").is_file()] == []


def test_data_files_are_shipped_and_globs_match():
    globs = [
        (package.removeprefix("foldlog").lstrip(".").replace(".", "/"), glob)
        for package, patterns in SETUPTOOLS["package-data"].items()
        for glob in patterns
    ]
    data = [
        path.relative_to(ROOT).as_posix()
        for room in room_folders()
        for path in room.rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc"}
    ]
    data.append("py.typed")

    def covers(folder: str, glob: str, file: str) -> bool:
        return fnmatch.fnmatch(file, f"{folder}/{glob}" if folder else glob)

    assert [file for file in data if not any(covers(*rule, file) for rule in globs)] == [], "not in package-data"
    assert [rule for rule in globs if not any(covers(*rule, file) for file in data)] == [], "matches no file"


def test_the_import_is_the_checkout():
    import foldlog

    assert Path(foldlog.__file__).samefile(ROOT / "__init__.py")
    assert importlib.metadata.version("foldlog") == pyproject()["project"]["version"]


def test_the_command_is_installed():
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="foldlog")
    assert callable(entry.load())


def name_of(requirement: str) -> str:
    return re.split(r"[\[<>=!~; ]", requirement)[0].lower().replace("_", "-")


def declared() -> set[str]:
    project = pyproject()["project"]
    extras = [req for name, reqs in project["optional-dependencies"].items() if name != "dev" for req in reqs]
    return {name_of(req) for req in [*project["dependencies"], *extras]}


def test_every_import_is_declared():
    owners = importlib.metadata.packages_distributions()
    wrong = []
    for path in module_files():
        for line, target, relative in file_imports(path):
            first = target.split(".")[0]
            if relative or first in sys.stdlib_module_names:
                continue
            by = {name.lower().replace("_", "-") for name in owners.get(first, [first])}
            if not by & declared():
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {first}, which pyproject.toml does not name")
    assert not wrong, "\n".join(wrong)


def test_the_issue_s_extras_exist():
    assert set(pyproject()["project"]["optional-dependencies"]) == {"postgres", "proxy", "mcp", "embeddings", "dev"}


@pytest.mark.parametrize("path", module_files(), ids=dotted)
def test_no_module_knows_a_machine(path):
    """The product reads nothing beside its checkout and names no folder of the machine it was written on."""
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"\.\./shared|(?<![\w.])/(?:work|home|root)/\w+|/tmp/\w+", text) == []


def test_the_type_checkers_link_leads_home():
    link = ROOT / ".types" / "foldlog"
    assert link.is_symlink()
    assert link.samefile(ROOT)

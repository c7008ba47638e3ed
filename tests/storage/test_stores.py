"""Opening a store by its URL."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from foldlog.domain.errors import OptionError, StoreUnavailable
from foldlog.storage import protocol
from foldlog.storage.stores import open_store
from support.events import note

S = "session/api/one"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://x/y",
        "sqlite://x.db",
        "sqlite:///",
        "sqlite:///:memory:",
        "memory",
        "log.db",
        "",
        "memory:x",
        "postgres",
    ],
)
def test_another_kind_of_url_is_named_with_the_three_forms(url: str) -> None:
    with pytest.raises(OptionError) as caught:
        open_store(url)
    assert caught.value.value == url
    for form in ("sqlite:///", "postgresql://", "memory:"):
        assert form in caught.value.message


def test_a_postgresql_url_that_cannot_be_read_does_not_show_its_password() -> None:
    with pytest.raises(OptionError):
        open_store("postgresql://user:secret@host/db?nonsense=1")


@pytest.mark.slow
def test_no_server(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        open_store(f"postgresql://nobody@/none?host={tmp_path}")


def test_relative_and_absolute_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_store("sqlite:///sub/a #1?.db").append(S, 0, [note(1)])
    assert (tmp_path / "sub" / "a #1?.db").exists()
    again = open_store(f"sqlite:///{tmp_path}/sub/a #1?.db")
    assert again.head(S) is not None
    assert again.url == f"sqlite:///{tmp_path}/sub/a #1?.db"


def test_the_environment_and_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDLOG_DB", str(tmp_path / "plain.db"))
    open_store().append(S, 0, [note(1)])
    monkeypatch.setenv("FOLDLOG_DB", f"sqlite:///{tmp_path}/plain.db")
    assert protocol.open_log().head(S) is not None
    monkeypatch.setenv("FOLDLOG_DB", "memory:")
    assert open_store().head(S) is None
    monkeypatch.delenv("FOLDLOG_DB")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    open_store().append(S, 0, [note(1)])
    made = list(tmp_path.rglob("foldlog.db"))
    assert len(made) == 1
    assert made[0].parent.name == "foldlog"


def test_a_new_file_is_for_its_owner_only(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/new/folder/log.db")
    store.append(S, 0, [note(1)])
    for path in (tmp_path / "new" / "folder").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new" / "folder").stat().st_mode & 0o777 == 0o700


def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    text, other = tmp_path / "text", tmp_path / "other.db"
    text.write_bytes(b"this is no database, but it is long enough to be looked at as one " * 20)
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    for path in (text, other, tmp_path):
        before = path.read_bytes() if path.is_file() else b""
        with pytest.raises(StoreUnavailable) as caught:
            open_store(f"sqlite:///{path}")
        assert str(path) in str(caught.value)
        assert (path.read_bytes() if path.is_file() else b"") == before


def test_two_stores_in_memory_are_two() -> None:
    one, other = open_store("memory:"), open_store("memory:")
    one.append(S, 0, [note(1)])
    assert other.head(S) is None

"""Options the commands share, and what becomes of them: a store, a session, a policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from ...api import Engine, wall_clock
from ...domain.errors import OptionError, StoreUnavailable
from ...domain.policy import Policy, check_ttl, make_policy
from ...storage.protocol import open_log
from ...storage.stores import default_url, place
from .. import config as configuration
from ..models.tokens import ENCODING, tokenizer

Db = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        show_default=False,
        help="The store: sqlite:///path, postgresql://user@host/database or memory:. "
        "Without it FOLDLOG_DB, then the configured one, else a file in your data folder.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
SessionName = Annotated[
    str, typer.Argument(metavar="SESSION", help="A session: harness/id, or its id alone where only one has it.")
]


@contextmanager
def reading(url: str | None) -> Iterator[Engine]:
    """Open a store that is there already. Raises ``OptionError``, ``StoreUnavailable``; nothing is created."""
    where = (configuration.load().db or default_url()) if url is None else url
    path = sqlite_path(where)
    try:
        missing = path is not None and not path.exists()
    except OSError:  # a folder nobody may look into, a name too long: opening it says which
        missing = False
    if missing:
        at = str(path.absolute()) if path is not None else ""
        raise StoreUnavailable("there is no store at this place; --db names another", value=where, where=at)
    # no command that reads counts tokens, and loading the vocabulary takes longer than most of them
    engine = Engine(open_log(where), _count, ENCODING, wall_clock)
    with engine:
        yield engine


def _count(text: str) -> int:
    return tokenizer()(text)


def sqlite_path(url: str) -> Path | None:
    """Return the file an SQLite URL names, None for another kind of store."""
    given = url.removeprefix("sqlite:///")
    if given == url or not given or "\x00" in given:
        return None
    return place(given)


def policy(settings: Sequence[str]) -> Policy | None:
    """Return the policy of ``key=value`` settings, None for none. Raises ``OptionError`` naming the setting."""
    if not settings:
        return None
    given: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        name = name.strip()
        if not equals or not name:
            raise OptionError("a setting is written as key=value, such as cache_ttl=1h", value=setting, where="--set")
        if name not in Policy.model_fields:
            known = ", ".join(sorted(Policy.model_fields))
            raise OptionError(f"there is no setting of that name; there are {known}", value=name, where="--set")
        if name in given:
            raise OptionError("the setting is given twice", value=name, where="--set")
        given[name] = _value(name, value.strip())
    try:
        return make_policy(given)
    except OptionError as error:
        raise OptionError(error.message, value=error.value, where="--set") from None


def _value(name: str, value: str) -> Any:
    """Return the value of a setting: an object of JSON per model, else the text, which the policy reads as its type."""
    if value.startswith("{"):
        try:
            found = msgspec.json.decode(value)
        except msgspec.MsgspecError as error:
            said = f"the setting {name!r} is not a JSON object: {error}"
            raise OptionError(said, value=value, where="--set") from None
    else:
        found = value
    if name == "cache_ttl":
        check_ttl(found, "--set")
    return found

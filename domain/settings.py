"""What is wrong with settings a person gave: which one, what it takes, and its value, in words of ours."""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
import pydantic

_TAKES = (
    ("int", "a whole number"), ("float", "a number"), ("finite", "a number"), ("bool", "true or false"),
    ("string_too_short", "text that is not empty"), ("string", "text"), ("tuple", "a list"), ("list", "a list"),
    ("dict", "a table of settings"), ("model", "a table of settings"), ("invalid_key", "names that are text"),
)  # fmt: skip
"""By what the name of pydantic's kind of error begins with; the first that fits."""
_BOUNDS = {
    "greater_than_equal": "{ge} or more", "less_than_equal": "{le} at most", "greater_than": "more than {gt}",
    "less_than": "less than {lt}", "literal_error": "one of {expected}",
}  # fmt: skip


class Wrong(ValueError):
    """What a validator says of a value, as a person should read it, and of the value what may be shown."""

    def __init__(self, said: str, value: Any) -> None:
        self.value = value
        super().__init__(said)


class Fault(msgspec.Struct, frozen=True):
    """What is wrong: ``name`` of the setting as a person wrote it (``a.b``, empty: all of it), ``said``, its value."""

    name: str
    said: str
    value: Any


def fault(error: pydantic.ValidationError, model: type[pydantic.BaseModel], given: Any) -> Fault:
    """Return the first fault of ``given``, which ``model`` refused.

    Where a setting has several forms, it is that of the form the value comes nearest to.
    """
    found = [(_names(one, given), one) for one in error.errors()]
    names, first = max(found, key=lambda one: len(one[0]))  # the first of the longest
    kind, said, ctx = first["type"], first["msg"].removeprefix("Value error, "), first.get("ctx", {})
    name, inner = ".".join(names), ctx.get("error")
    if isinstance(inner, Wrong):
        return Fault(name, str(inner), inner.value)
    if kind == "extra_forbidden" or (first["loc"][-1:] == ("[key]",) and "expected" in ctx):
        known = ctx.get("expected") or ", ".join(sorted(_known(model, names[:-1])))
        return Fault(name, f"there is no setting {name!r}; there are {known}", names[-1])
    if kind == "missing":
        return Fault(name, f"the setting {name!r} is missing", None)
    bounds = {key: _short(bound) for key, bound in ctx.items()}
    named = (words for begin, words in _TAKES if kind.startswith(begin))
    takes = _BOUNDS.get(kind, "").format_map(bounds) or next(named, "")
    said = f"it takes {takes}" if takes else said
    return Fault(name, f"the setting {name!r} cannot be used: {said}" if name else said, first.get("input"))


def _short(given: Any) -> Any:
    return int(given) if isinstance(given, float) and given.is_integer() else given


def _names(error: Any, given: Any) -> tuple[str, ...]:
    """Return the names a person wrote on the way to a fault, without those of the forms a value was held against."""
    found = []
    for place in error["loc"]:
        if isinstance(given, Mapping) and place in given:
            given = given[place]
            found.append(str(place))
    if error["type"] == "missing":
        found.append(str(error["loc"][-1]))
    return tuple(found)


def _known(model: type[pydantic.BaseModel], names: tuple[str, ...]) -> set[str]:
    """Return the settings there are under ``names``."""
    forms: list[Any] = [model]
    for name in names:
        forms = [inner for form in forms for inner in _inside(form, name)]
    return {field for form in forms if _is_model(form) for field in form.model_fields}


def _inside(form: Any, name: str) -> list[Any]:
    if _is_model(form):
        return _forms(form.model_fields[name].annotation) if name in form.model_fields else []
    return _forms(get_args(form)[1]) if get_origin(form) is dict else []


def _forms(form: Any) -> list[Any]:
    if get_origin(form) in (Union, UnionType):
        return [one for inner in get_args(form) for one in _forms(inner)]
    return [form]


def _is_model(form: Any) -> bool:
    return isinstance(form, type) and issubclass(form, pydantic.BaseModel)

"""What both providers' rules share: the violation, plain-JSON and Unicode walks, small shape tests."""

from __future__ import annotations

import hashlib
import marshal
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: its id, the place in the request (``messages[3].content[1]``) and a sentence for people."""

    rule: str
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.where}: {self.message}"


def broken_rules(found: Iterable[Violation]) -> set[str]:
    """Return the ids of the rules that ``found`` names."""
    return {violation.rule for violation in found}


def not_json(value: Any, where: str) -> list[str]:
    """Return a line for each part of ``value`` that JSON cannot say: NaN, infinities, other types, other keys."""
    found: list[str] = []
    stack = [(value, where)]
    while stack:
        item, place = stack.pop()
        if isinstance(item, float):
            if not math.isfinite(item):
                found.append(f"{place} is {item!r}")
        elif isinstance(item, dict):
            for key, inner in item.items():
                if not isinstance(key, str):
                    found.append(f"{place} has the key {key!r}, which is no text")
                stack.append((inner, f"{place}.{key}"))
        elif isinstance(item, list):
            stack.extend((inner, f"{place}[{index}]") for index, inner in enumerate(item))
        elif item is not None and not isinstance(item, (str, int)):
            found.append(f"{place} is a {type(item).__name__}")
    return found


def has_lone_surrogate(value: Any) -> bool:
    """Return whether any text in ``value``, keys included, has half of a surrogate pair."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            if not item.isascii():
                try:
                    item.encode("utf-8")
                except UnicodeEncodeError:
                    return True
        elif isinstance(item, dict):
            stack.extend(item)
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return False


def is_blank(text: Any) -> bool:
    """Return whether ``text`` is a text without a visible character."""
    return isinstance(text, str) and not text.strip()


def is_filled(text: Any) -> bool:
    """Return whether ``text`` is a text with a visible character."""
    return isinstance(text, str) and bool(text.strip())


def is_base64(text: Any) -> bool:
    """Return whether ``text`` is non-empty base64 of a whole length."""
    return isinstance(text, str) and len(text) % 4 == 0 and BASE64.fullmatch(text) is not None


def clone(value: Any) -> Any:
    """Return a deep copy of JSON-like ``value``."""
    if isinstance(value, dict):
        return {key: clone(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [clone(inner) for inner in value]
    return value


def fingerprint(value: Any) -> bytes:
    """Return a digest that differs wherever the JSON forms differ (True from 1, 1 from 1.0); key order counts too.

    Raises ValueError for what is not JSON-like.
    """
    return hashlib.blake2b(marshal.dumps(value, 2), digest_size=16).digest()

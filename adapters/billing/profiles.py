"""How providers cache and charge, as data (convention 25, ``hosts.md`` 6.5).

Prices are in units of one uncached input token.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

import msgspec

from ...domain.errors import OptionError

Way: TypeAlias = Literal["marks", "steps", "entries"]
"""``marks``: only marked prefixes are cached, and found a few blocks back. ``steps``: every prefix is, in whole steps.
``entries``: the whole prompt and marked prefixes are cached, and the longest is found."""


class Profile(msgspec.Struct, frozen=True):
    """One provider's cache.

    ``lifetime``: ms since an entry was last written or read; it is lost when *more* has passed. ``minimum``: tokens a
    prefix must have, by a part of the model's name, the first that fits; ``""`` fits all. ``marks``: most marks a
    request may have. ``lookback``: blocks before a mark in which an entry is found. ``step``: tokens. ``answers``: the
    answer is cached behind its prompt.
    """

    name: str
    read: float
    write: float
    output: float
    lifetime: int
    way: Way
    minimum: tuple[tuple[str, int], ...]
    marks: int = 0
    lookback: int = 0
    step: int = 1
    answers: bool = False

    def least(self, model: str) -> int:
        """Return the tokens a prefix must have to be cached for ``model``."""
        name = model.lower().replace(".", "-")
        return next((tokens for part, tokens in self.minimum if part in name), 0)


_ANTHROPIC = (
    ("opus-4-5", 4_096),
    ("opus-4-6", 4_096),
    ("opus-4-7", 4_096),
    ("haiku-4-5", 4_096),
    ("haiku-3", 2_048),
    ("claude-3-haiku", 2_048),
    ("claude-3-5-haiku", 2_048),
    ("", 1_024),
)


def _anthropic(name: str, write: float, lifetime: int) -> Profile:
    return Profile(name, 0.1, write, 5, lifetime, "marks", _ANTHROPIC, marks=4, lookback=20)


PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        one.name: one
        for one in (
            _anthropic("anthropic-5m", 1.25, 300_000),
            _anthropic("anthropic-1h", 2, 3_600_000),
            Profile("openai", 0.1, 1, 8, 600_000, "steps", (("", 1_024),), step=128),
            Profile("openai-write", 0.1, 1.25, 8, 1_800_000, "entries", (("", 1_024),), marks=3),
            Profile("deepseek", 0.1, 1, 1.5, 86_400_000, "steps", (("", 0),), step=64, answers=True),
        )
    }
)
"""The profiles there are, by name."""


def profile(name: str) -> Profile:
    """Return a profile by its name. Raises ``OptionError`` for one that is not there."""
    found = PROFILES.get(name)
    if found is None:
        raise OptionError(f"there is no such cache profile; known are {', '.join(PROFILES)}", value=name)
    return found

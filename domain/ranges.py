"""Numbers in ranges; the one grammar of tag lists: ``3-5,8`` (``transform.md`` 3.1, REDUCE-1)."""

from __future__ import annotations

from itertools import pairwise

from .errors import RangeError, shown

LIMIT = 1000
"""Most numbers one range, and one list in total, may name."""


def parse_tags(text: object) -> tuple[int, ...]:
    """Return the numbers ``text`` names, sorted and without repeats.

    Items are separated by commas, each ``N`` or ``A-B``; ``§`` anywhere and white space are ignored. Raises
    ``RangeError`` with the item that was wrong.
    """
    if not isinstance(text, str) or not text.strip():
        raise RangeError("a tag list must be text such as '3-5,8'", value=text)
    found: set[int] = set()
    for item in text.replace("§", "").split(","):
        first, dash, last = (piece.strip() for piece in item.partition("-"))
        low = _number(first, item)
        high = _number(last, item) if dash else low
        if high < low:
            raise RangeError(f"the range {shown(item.strip())} runs backwards; write {high}-{low}", value=text)
        if high - low >= LIMIT:
            raise RangeError(f"the range {shown(item.strip())} names more than {LIMIT} tags", value=text)
        found.update(range(low, high + 1))
        if len(found) > LIMIT:
            raise RangeError(f"the list names more than {LIMIT} tags", value=text)
    return tuple(sorted(found))


def show_tags(tags: tuple[int, ...] | list[int]) -> str:
    """Return ``§3§, §4§`` for (3, 4)."""
    return ", ".join(f"§{tag}§" for tag in tags)


def _number(text: str, item: str) -> int:
    # str.isdigit accepts superscripts and other scripts' digits, which int() or an agent would read differently
    if not text or not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < 1:
        raise RangeError(f"{shown(item.strip())} is not a tag number or a range A-B of them", value=item.strip())
    return int(text)


def ranges(ordinals: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return consecutive ordinals as inclusive ranges."""
    if not ordinals:
        return ()
    breaks = [0, *(i + 1 for i, (a, b) in enumerate(pairwise(ordinals)) if b != a + 1), len(ordinals)]
    return tuple((ordinals[a], ordinals[b - 1]) for a, b in pairwise(breaks))

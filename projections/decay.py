"""Old history at the detail it still deserves: one tier a compartment by age, importance and room (``history.md`` 3).

A pure function of rows, budget and tokenizer: the order rows come in does not matter, and tiers change only where a
fold renders again. Sizes are local tokens; all curve arithmetic is IEEE double.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from ..domain.history.words import clip, escape, guard_headings, one_line

EDGES = (0.201, 0.729, 1.322, 2.587)
"""Upper ends (exclusive) of tiers 1 to 4 in half-lives; what is older is archived."""
ARCHIVED = 5
COSTS = (322, 109, 35, 20, 0)
"""Typical tokens of tiers 1 to 4 and of an archived compartment, for pressure only."""
HALF_LIFE = 24
NEUTRAL = 50
LEAST_PRESSURE = 0.1
TOLERATED = 1.05
SHRINK = 1.15
RETRIES = 3
EMPTY = "<session-history></session-history>"

_USER_LINE = re.compile(r"^U:", re.MULTILINE)
_FLAT_UNITS = (None, 1_200, 420)


class Row(msgspec.Struct, frozen=True, gc=False):
    """A compartment as the renderer needs it: its range, title, tier texts p1..p4 as written, importance.

    ``tokens``: what each tier counts once rendered, heading included and dates not (``measure``). ``content``,
    ``legacy``: flat text and mark of rows older than the tiers; a tier that is None was never written.
    """

    first: int
    last: int
    title: str
    tiers: tuple[str | None, str | None, str | None, str | None]
    tokens: tuple[int, int, int, int]
    importance: int | None = NEUTRAL
    content: str = ""
    legacy: bool = False

    @property
    def boundary_only(self) -> bool:
        """Whether the row only moves the offset: it has no text at all, and is never rendered (5.9)."""
        return not (self.title or self.content or any(self.tiers))


class Block(msgspec.Struct, frozen=True, gc=False):
    """One rendered compartment: the ``first`` position of its row, the tier shown (1..4), its text."""

    first: int
    tier: int
    text: str


class Rendered(msgspec.Struct, frozen=True):
    """The history of one fold. ``text`` is ``blocks`` joined by blank lines; ``tokens`` counts it (0: never counted).

    ``budget``: the effective one, after ``retries``. ``demoted``: steps taken to meet it. ``archived``: compartments
    that render nothing.
    """

    text: str
    blocks: tuple[Block, ...]
    tokens: int
    budget: float
    pressure: float
    demoted: int
    archived: int
    retries: int = 0


# ------------------------------------------------------------------------- curve


def half_lives(index: int, importance: int | None, pressure: float) -> float:
    """Return the age of the ``index``-th newest compartment (1 = newest) in half-lives (3.1)."""
    weight = min(100, max(1, NEUTRAL if importance is None else importance))
    life = HALF_LIFE * 2 ** ((weight - NEUTRAL) / 25) / max(pressure, LEAST_PRESSURE)
    return (max(index, 1) - 1) / life


def tier(index: int, importance: int | None, pressure: float) -> int:
    """Return the tier 1 to 4 the curve gives, or 5: archived. A value on an edge belongs to the older tier."""
    age = half_lives(index, importance, pressure)
    return next((number for number, edge in enumerate(EDGES, 1) if age < edge), ARCHIVED)


def pressure(importances: Sequence[int | None], budget: float, *, passes: int = 1) -> float:
    """Return how tight ``budget`` is for compartments given newest first: typical cost over budget, at least 0.1 (3.2).

    With ``passes=2``, where the cost at that pressure is still over 1.1 budgets, it is multiplied by the excess; the
    renderer uses one pass.
    """
    if budget <= 0:
        return 1.0
    found = max(LEAST_PRESSURE, _cost(importances, 1.0) / budget)
    if passes > 1 and (cost := _cost(importances, found)) > 1.1 * budget:
        found *= cost / budget
    return found


def _cost(importances: Sequence[int | None], at: float) -> int:
    return sum(COSTS[tier(index, importance, at) - 1] for index, importance in enumerate(importances, 1))


# -------------------------------------------------------------------------- text


def heading(row: Row, dates: str = "") -> str:
    """Return ``## start-end · dates · title`` (2.2), the title on one line and escaped."""
    middle = f" · {dates}" if dates else ""
    return f"## {row.first}-{row.last}{middle} · {escape(one_line(row.title))}"


def block(row: Row, number: int, dates: str = "") -> str:
    """Return the row at tier 1 to 4: its heading, and its body where it has one. Nothing in a body is structure."""
    body = guard_headings(escape(_body(row, number)))
    return f"{heading(row, dates)}\n{body}" if body else heading(row, dates)


def measure(row: Row, count: Callable[[str], int]) -> tuple[int, int, int, int]:
    """Return the tokens of the four tiers as rendered: what ``Row.tokens`` holds, counted once, at publication."""
    one, two, three, four = (count(block(row, number)) for number in (1, 2, 3, 4))
    return one, two, three, four


def history_block(body: str) -> str:
    """Return the ``<session-history>`` element; it is there even when it is empty."""
    return f"<session-history>\n{body}\n</session-history>" if body else EMPTY


def _body(row: Row, number: int) -> str:
    """The text of a tier (3.3, 3): as stored, else the nearest denser one that says something, else the content."""
    if row.legacy or not row.tiers[0]:
        if number == 4:
            return ""
        units = _FLAT_UNITS[number - 1]
        return (row.content if units is None else clip(row.content, units)).strip()
    stored = row.tiers[number - 1]
    if stored is not None:
        return stored.strip()
    return next((text for text in row.tiers[number - 2 :: -1] if text), row.content).strip()


# ---------------------------------------------------------------------- renderer


class _Page(msgspec.Struct):
    """Rows being rendered, oldest first, and the tier each is at."""

    rows: list[Row]
    tiers: list[int]
    dates: Callable[[Row], str]
    demoted: int = 0

    def text(self, place: int) -> str:
        row, at = self.rows[place], self.tiers[place]
        return block(row, at, self.dates(row)) if at < ARCHIVED else ""

    def tokens(self, place: int) -> int:
        return self.rows[place].tokens[self.tiers[place] - 1] if self.tiers[place] < ARCHIVED else 0

    def demote(self) -> Iterator[int]:
        """Take the oldest compartment still shown one tier down, again and again; yield its place after each step."""
        for place in range(len(self.rows)):
            while self.tiers[place] < ARCHIVED:
                self.tiers[place] += 1
                self.demoted += 1
                yield place


def render(
    rows: Iterable[Row], budget: float, count: Callable[[str], int], *, dates: Callable[[Row], str] | None = None
) -> Rendered:
    """Return the history within ``budget`` tokens (3.3); a budget of 0 or less is none.

    Where the curve's tiers are too much, the oldest compartment still shown is taken down tier by tier until it is
    archived, then the next one. ``count`` reads the joined text once or twice, and the few blocks it demotes by it.
    """
    shown = sorted((row for row in rows if not row.boundary_only), key=lambda row: (row.first, row.last))
    tight = pressure([row.importance for row in reversed(shown) if not row.legacy], budget)
    page = _Page(shown, _assign(shown, tight), dates or _undated)
    steps = page.demote()
    if budget > 0:
        _demote_by_measure(page, steps, budget)
    texts = [page.text(place) for place in range(len(shown))]
    tokens = _demote_by_text(page, steps, budget, texts, count) if budget > 0 else 0
    return Rendered(
        text=_joined(texts),
        blocks=tuple(
            Block(row.first, at, text) for row, at, text in zip(shown, page.tiers, texts, strict=True) if text
        ),
        tokens=tokens,
        budget=budget,
        pressure=tight,
        demoted=page.demoted,
        archived=sum(at >= ARCHIVED for at in page.tiers),
    )


def render_within(
    rows: Iterable[Row], budget: float, count: Callable[[str], int], *, dates: Callable[[Row], str] | None = None
) -> Rendered:
    """Render, and while ``<session-history>`` is over 1.05 budgets render again for less, at most 3 times (2.7, 3).

    Each retry divides the effective budget by a further 1.15; the last one is kept even if it is still over.
    """
    rows = tuple(rows)
    found = render(rows, budget, count, dates=dates)
    while budget > 0 and found.retries < RETRIES and _over(found, budget, count):
        again = render(rows, found.budget / SHRINK, count, dates=dates)
        found = msgspec.structs.replace(again, retries=found.retries + 1)
    return found


def _over(found: Rendered, budget: float, count: Callable[[str], int]) -> bool:
    if found.tokens + 2 * count(EMPTY) <= TOLERATED * budget:
        return False  # the element around it cannot make the difference: spare a count of the whole
    return count(history_block(found.text)) > TOLERATED * budget


def _undated(_: Row) -> str:
    return ""


def _assign(shown: Sequence[Row], tight: float) -> list[int]:
    """Return each row's tier (3.3, 2); flat rows are outside the curve, at 3 with a user's line and at 4 without."""
    tiers = []
    index = sum(not row.legacy for row in shown)
    for row in shown:
        if row.legacy:
            tiers.append(3 if _USER_LINE.search(row.content) else 4)
        else:
            tiers.append(tier(index, row.importance, tight))
            index -= 1
    return tiers


def _demote_by_measure(page: _Page, steps: Iterator[int], budget: float) -> None:
    total = sum(page.tokens(place) for place in range(len(page.rows)))
    while total > budget:
        place = next(steps, -1)
        if place < 0:
            return
        total += page.tokens(place) - page.rows[place].tokens[page.tiers[place] - 2]


def _demote_by_text(
    page: _Page, steps: Iterator[int], budget: float, texts: list[str], count: Callable[[str], int]
) -> int:
    """Go on until the joined text itself fits; return its tokens. ``texts`` follows the page.

    After a step the total is adjusted by the blocks that changed, not counted anew: a block ends before the ``##`` of
    the next one, where tokenizers split. What is returned was counted.
    """
    tokens = count(_joined(texts))
    while tokens > budget:
        place = next(steps, -1)
        if place < 0:
            break
        before, after = texts[place], page.text(place)
        texts[place] = after
        tokens += (count(after + "\n\n") if after else 0) - count(before + "\n\n")
        if tokens <= budget:
            tokens = count(_joined(texts))
    return tokens


def _joined(texts: Iterable[str]) -> str:
    return "\n\n".join(filter(None, texts))

"""What a played session cost: whose summaries it has, its bill per level and cause beside the baselines, the report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from ...domain.errors import OptionError, counted
from ..billing.bill import Bill, Sums
from ..billing.profiles import Profile, profile
from ..billing.report import report
from ..models.summarizers import Anthropic, Extractive, OpenAI, Summarizer
from ..models.tokens import tokenizer
from ..simulate.arms import NOTHING, OURS, Arms, profile_for
from ..simulate.play import Played
from .terminal import say, table

SUMMARIZERS = "extractive, none, openai:MODEL, openai:MODEL@BASE_URL, anthropic:MODEL or anthropic:MODEL@BASE_URL"
UNIT = "in units of one uncached input token"


def summarizer(given: str) -> Summarizer | None:
    """Return the summariser a person named. Raises ``OptionError``.

    The key of a model comes from ``OPENAI_API_KEY`` or ``ANTHROPIC_API_KEY``; an address of one's own needs none.
    """
    if given == "none":
        return None
    if given == "extractive":
        return Extractive(tokenizer())
    kind, _, rest = given.partition(":")
    model, at, address = rest.partition("@http")
    if kind not in ("openai", "anthropic") or not model.strip():
        raise OptionError(f"a summariser is one of {SUMMARIZERS}", value=given, where="--summarizer")
    if "@" in model:
        raise OptionError(
            "the address of a model must begin with http:// or https://", value=given, where="--summarizer"
        )
    make = OpenAI if kind == "openai" else Anthropic
    key = f"{kind.upper()}_API_KEY"
    if not at:
        return make(model)
    return make(model, base_url=f"http{address}", key_env=key if os.environ.get(key) else "")


def chosen_profile(name: str | None, model: str, *, needed: bool) -> Profile | None:
    """Return the cache profile a person named; if none, but one is ``needed``, the one ``model`` points to."""
    if name:
        return profile(name)
    return profile_for(model) if needed else None


def told(arms: Arms) -> dict[str, Any]:
    """Return the bills for JSON: sums, and rows per level and cause, by arm."""
    bills = {arm: _bill(bill) for arm, bill in arms.bills.items()}
    ratios = {arm: round(arms.ratio(arm), 4) for arm in arms.bills if arm != OURS}
    return {"profile": arms.profile.name, "window": arms.window, "arms": bills, "ratios": ratios}


def _bill(bill: Bill) -> dict[str, Any]:
    return {
        "cost": round(bill.cost, 3),
        "total": _sums(bill.total),
        "added_calls": bill.added_calls,
        "added": _sums(bill.added),
        "requests": bill.requests,
        "refusals": bill.refusals,
        "busts": len(bill.busts),
        "largest_prompt": bill.largest_prompt,
        "rows": [
            {
                "level": row.level,
                "cause": row.cause,
                "requests": row.requests,
                "busts": row.busts,
                **_sums(row.sums),
            }
            for row in bill.rows
        ],
    }


def _sums(sums: Sums) -> dict[str, Any]:
    return {**msgspec.to_builtins(sums), "cost": round(sums.cost, 3)}


def say_bill(arms: Arms) -> None:
    """Print our bill per level and cause, then the arms beside each other."""
    bill = arms.bills[OURS]
    say(f"the bill on {arms.profile.name}, tokens; cost {UNIT}")
    head = ("level", "cause", "requests", "busts", "read", "first written", "rewritten", "uncached", "output", "cost")
    rows = [(row.level, row.cause, row.requests, row.busts, *_cells(row.sums)) for row in bill.rows]
    sent = bill.requests + bill.refusals + bill.added_calls
    rows.append(("total", "", sent, len(bill.busts), *_cells(bill.total)))
    table(head, rows, right=range(2, len(head)))
    columns = (
        "arm", "read", "first written", "rewritten", "uncached", "output", "cost", "of it added calls", "refused",
        "largest prompt", "foldlog costs",
    )  # fmt: skip
    compared = [
        (
            arm, *_cells(other.total), f"{other.added.cost:,.0f} ({other.added_calls})", other.refusals,
            other.largest_prompt, "" if arm == OURS else f"{arms.ratio(arm):.3f} of it",
        )
        for arm, other in arms.bills.items()
    ]  # fmt: skip
    table(columns, compared, right=range(1, len(columns)))
    for note in notes(arms):
        say(note)


def _cells(sums: Sums) -> tuple[Any, ...]:
    return sums.read, sums.first, sums.rewritten, sums.uncached, sums.output, round(sums.cost)


def notes(arms: Arms) -> list[str]:
    """Return what a reader of the figures must know."""
    out = []
    nothing = arms.bills[NOTHING]
    if nothing.refusals:
        out.append(
            f"doing nothing: {nothing.refusals:,} of {nothing.requests + nothing.refusals:,} requests are above the "
            "window; they are refused and cost nothing, so its cost is that of a session that breaks off"
        )
    if not arms.window:
        out.append("compacting once needs a window; name one with --window")
    return out


def write_report(path: str | Path, arms: Arms, played: Played) -> None:
    """Write the report of a played session. Raises ``OptionError``."""
    said = [
        f"{OURS}: this session as foldlog sent it; {summary_line(played)}.",
        "doing nothing: the same messages, never compacted; a request above the window is refused and costs nothing.",
        "compacting once: above 95% of the window a call reads the whole prompt; its 4,000 tokens replace everything.",
        "All arms are billed by one function from their wire logs; output and added calls count in each.",
        *(f"{note[0].upper()}{note[1:]}." for note in notes(arms)),
    ]
    report(path, f"foldlog: {played.trace}", arms.bills, arms.logs, arms.window, said)


def summary_line(played: Played) -> str:
    """Return what became of the history."""
    if not played.summarizer:
        return "history: nothing is summarised"
    said = f"history: {counted(played.compartments, 'stretch', 'stretches')} summarised by {played.summarizer}"
    if played.summary_calls:
        said += f", {counted(played.summary_calls, 'call')}"
    return said + (f"; {counted(played.failed_summaries, 'run')} gave nothing" if played.failed_summaries else "")

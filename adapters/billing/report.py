"""The report of a comparison: one HTML file that asks nobody for anything (``design.md`` 7, ``specs/billing.md``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

import msgspec

from ...domain.errors import OptionError
from . import figures
from .bill import Bill, Row, Sums
from .records import MAIN, Record

STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #f1f5f9; color: #0f172a;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 28px 20px 48px; }
h1 { font-size: 26px; margin: 0 0 2px; letter-spacing: -0.01em; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 0 0 2px; }
p { margin: 0 0 10px; }
.quiet { color: #475569; }
section, .card { background: #fff; border: 1px solid #e2e8f0; border-radius: 10px; }
section { padding: 18px 20px; margin-top: 18px; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(230px, 1fr)); gap: 14px; margin-top: 18px; }
.card { padding: 14px 16px; border-top: 4px solid var(--c); }
.card b { display: block; font-size: 25px; letter-spacing: -0.02em; font-variant-numeric: tabular-nums; }
.card span { display: block; color: #475569; font-size: 13.5px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 7px; text-align: right; border-bottom: 1px solid #e2e8f0; white-space: nowrap; }
th { color: #475569; font-weight: 600; border-bottom-color: #94a3b8; vertical-align: bottom; }
td.l, th.l { text-align: left; }
td.l { white-space: normal; min-width: 9em; }
tfoot td { font-weight: 600; border-bottom: 0; border-top: 1px solid #94a3b8; }
summary { cursor: pointer; font-weight: 600; margin: 8px 0; }
summary i { display: inline-block; width: 10px; height: 10px; border-radius: 50%; margin: 0 6px; }
li { margin-bottom: 4px; }
"""

CONTEXT = (
    "Tokens of each prompt. A dot is a bust: tokens the cache had held and that were paid for again; the more, the "
    "larger. Point at it for its name."
)

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""The page itself forbids the browser to ask for anything outside it."""


def report(
    path: str | Path,
    title: str,
    arms: Mapping[str, Bill],
    records: Mapping[str, Sequence[Record]],
    window: int,
    notes: Sequence[str] = (),
) -> None:
    """Write the report. The first arm is the one reported on; ``window`` in tokens, 0 = unknown.

    ``records`` are the wire logs of the arms, by the same names. Raises ``OptionError`` if there is no arm, a log is
    missing, or the file cannot be written.
    """
    if not arms:
        raise OptionError("a report needs at least one arm", where="report")
    for arm, bill in arms.items():
        if len(records.get(arm, ())) != len(bill.lines):
            raise OptionError("the bill of this arm was not made from these records", value=arm, where="report")
    try:
        Path(path).write_text(page(title, arms, records, window, notes), encoding="utf-8", errors="replace")
    except (OSError, ValueError) as error:
        raise OptionError(f"the report cannot be written ({error}); choose another place", value=str(path)) from None


def page(
    title: str, arms: Mapping[str, Bill], records: Mapping[str, Sequence[Record]], window: int, notes: Sequence[str]
) -> str:
    """Return the report as HTML."""
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]  # slow to load, and only a report needs it

    charts = {"context": figures.context(arms, window), "costs": figures.costs(arms)}
    parts = [
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>",
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f"<script>{get_plotlyjs()}</script></head><body><main>",
        f"<h1>{escape(title)}</h1><p class='quiet'>{escape(_about(arms, records, window))}</p>",
        _cards(arms),
        _chart("context", "Context size", CONTEXT),
        _chart("costs", "Cost so far", "In units of one uncached input token, output and added calls included."),
        _comparison(arms),
        _bills(arms),
        _notes(notes),
        f"</main><script>{_script(charts)}</script></body></html>\n",
    ]
    return "".join(parts)


def _chart(name: str, title: str, said: str) -> str:
    return (
        f"<section><h2>{title}</h2><p class='quiet'>{said}</p><div id='{name}' role='img' aria-label='{title}, "
        "by request'></div></section>"
    )


def _script(charts: Mapping[str, figures.Figure]) -> str:
    data = msgspec.json.encode(charts).decode().replace("<", "\\u003c").replace("\u2028", " ").replace("\u2029", " ")
    config = '{"responsive":true,"displaylogo":false,"modeBarButtonsToRemove":["lasso2d","select2d"]}'
    return f"const charts={data};for(const id in charts)Plotly.newPlot(id,charts[id].data,charts[id].layout,{config});"


def _about(arms: Mapping[str, Bill], records: Mapping[str, Sequence[Record]], window: int) -> str:
    arm = next(iter(arms))
    own = records[arm]
    models = sorted({record.model for record in own if record.kind == MAIN and record.model})
    profiles = sorted({bill.profile for bill in arms.values()})
    said = [f"{arms[arm].requests + arms[arm].refusals:,} requests", ", ".join(models) or "no model named"]
    said.append(f"cache profile {', '.join(profiles)}")
    said.append(f"window {window:,} tokens" if window else "window unknown")
    times = [record.at for record in own if record.at > 0]
    if times:
        said.append(f"{figures.stamp(min(times))} to {figures.stamp(max(times))}")
    return " · ".join(said)


def _cards(arms: Mapping[str, Bill]) -> str:
    cards = []
    for place, (arm, bill) in enumerate(arms.items()):
        busts = "1 bust" if len(bill.busts) == 1 else f"{len(bill.busts):,} busts"
        cards.append(
            f"<div class='card' style='--c:{figures.colour(place)}'><span>{escape(arm)}</span>"
            f"<b>{_short(bill.cost)}</b><span>{escape(_compared(arm, bill, arms))}</span>"
            f"<span>{busts}, {bill.total.rewritten:,} tokens paid again</span>"
            f"<span>largest prompt {bill.largest_prompt:,}, refused {bill.refusals:,}</span></div>"
        )
    return f"<div class='cards'>{''.join(cards)}</div>"


def _compared(arm: str, bill: Bill, arms: Mapping[str, Bill]) -> str:
    first = next(iter(arms))
    if arm == first:
        return "cost in uncached input tokens"
    return f"{first} costs {arms[first].cost / bill.cost:.2f} × this" if bill.cost else "cost nothing"


def _short(cost: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if cost >= size:
            return f"{cost / size:.2f} {unit}"
    return f"{cost:.0f}"


def _comparison(arms: Mapping[str, Bill]) -> str:
    head = (
        "arm", "cost", "read", "first written", "paid again", "uncached", "output", "added calls (cost)",
        "requests", "refused", "busts", "largest prompt",
    )  # fmt: skip
    rows = [
        (
            arm, f"{bill.cost:,.0f}", *_tokens(bill.total), f"{bill.added_calls:,} ({bill.added.cost:,.0f})",
            f"{bill.requests:,}", f"{bill.refusals:,}", f"{len(bill.busts):,}", f"{bill.largest_prompt:,}",
        )
        for arm, bill in arms.items()
    ]  # fmt: skip
    said = "<h2>The arms</h2><p class='quiet'>Tokens; cost in uncached input tokens.</p>"
    return f"<section>{said}{_table(head, rows)}</section>"


def _bills(arms: Mapping[str, Bill]) -> str:
    parts = ["<section><h2>The bill, by level and cause</h2>"]
    for place, (arm, bill) in enumerate(arms.items()):
        dot = f"<i style='background:{figures.colour(place)}'></i>"
        table = _table(
            (
                "level", "cause", "requests", "busts",
                "read", "first written", "paid again", "uncached", "output", "cost", "share",
            ),
            [_row(row, bill) for row in bill.rows],
            left=2,
            foot=(
                "total", "", f"{bill.requests + bill.refusals + bill.added_calls:,}", f"{len(bill.busts):,}",
                *_tokens(bill.total), f"{bill.cost:,.0f}", "100.0%" if bill.cost else "",
            ),
        )  # fmt: skip
        parts.append(f"<details{' open' if place == 0 else ''}><summary>{dot}{escape(arm)}</summary>{table}</details>")
    return "".join([*parts, "</section>"])


def _row(row: Row, bill: Bill) -> tuple[str, ...]:
    share = f"{100 * row.sums.cost / bill.cost:.1f}%" if bill.cost else ""
    counts = (f"{row.requests:,}", f"{row.busts:,}")
    return (row.level, row.cause, *counts, *_tokens(row.sums), f"{row.sums.cost:,.0f}", share)


def _tokens(sums: Sums) -> tuple[str, ...]:
    return tuple(f"{count:,}" for count in (sums.read, sums.first, sums.rewritten, sums.uncached, sums.output))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1, foot: Sequence[str] = ()) -> str:
    def cells(tag: str, values: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=l' if place < left else ''}>{escape(value)}</{tag}>" for place, value in enumerate(values)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    end = f"<tfoot><tr>{cells('td', foot)}</tr></tfoot>" if foot else ""
    top = f"<thead><tr>{cells('th', head)}</tr></thead>"
    return f"<div class='scroll'><table>{top}<tbody>{body}</tbody>{end}</table></div>"


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    return f"<section><h2>Notes</h2><ul>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul></section>"

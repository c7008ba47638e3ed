"""The two charts of a report, as plain Plotly data: what stands in them comes from the bills alone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from html import escape
from typing import Any, TypeAlias

from .bill import Bill, Line
from .records import MAIN, REFUSED

Figure: TypeAlias = dict[str, Any]

COLOURS = ("#2563eb", "#d97706", "#64748b", "#0f9f7f", "#9333ea", "#be123c")
LEAST, MOST = 7.0, 24.0
"""Diameters of a bust's mark, in pixels; its area follows the tokens paid again."""

_FONT = {"family": "system-ui, -apple-system, Segoe UI, Roboto, sans-serif", "size": 13, "color": "#334155"}
_GRID = {"gridcolor": "#e2e8f0", "zeroline": False, "linecolor": "#94a3b8", "ticks": "outside", "tickcolor": "#94a3b8"}


def colour(place: int) -> str:
    """Return the colour of the arm at ``place``."""
    return COLOURS[place % len(COLOURS)]


def stamp(at: int) -> str:
    """Return a time (ms UTC) for people, "no time" where it is unknown."""
    if at <= 0:
        return "no time recorded"
    try:
        return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{at} ms"


def context(arms: Mapping[str, Bill], window: int) -> Figure:
    """Context size over requests: a line an arm, its busts, refusals and added calls as marks named on hover."""
    data: list[Figure] = []
    biggest = max([bust.tokens for bill in arms.values() for bust in bill.busts], default=1)
    drawn = list(enumerate(arms.items()))[::-1]  # the arm reported on lies on top
    for place, (arm, bill) in drawn:
        lines = [line for line in bill.lines if line.kind == MAIN]
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": escape(arm),
                "legendrank": place,
                "x": [line.number for line in lines],
                "y": [line.prompt for line in lines],
                "text": [_request(line) for line in lines],
                "hovertemplate": f"<b>{escape(arm)}</b>, request %{{x}}<br>%{{text}}<extra></extra>",
                "line": {"color": colour(place), "width": 2.4 if place == 0 else 1.6},
                "opacity": 1 if place == 0 else 0.75,
            }
        )
    for place, (arm, bill) in drawn:
        data += [{**mark, "legendrank": 100 + place} for mark in _marks(arm, bill, colour(place), biggest)]
    layout = _layout("request", "context size (tokens)")
    if window > 0:
        layout["shapes"] = [
            {
                "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": window, "y1": window,
                "line": {"color": "#dc2626", "width": 1.2, "dash": "dash"},
            }
        ]  # fmt: skip
        layout["annotations"] = [
            {
                "xref": "paper", "x": 0.005, "y": window, "yanchor": "bottom", "xanchor": "left", "showarrow": False,
                "text": f"window {window:,}", "font": {"color": "#dc2626", "size": 12},
            }
        ]  # fmt: skip
    return {"data": data, "layout": layout}


def _marks(arm: str, bill: Bill, shade: str, biggest: int) -> list[Figure]:
    found: list[Figure] = []
    busts = [(bust, bill.lines[bust.index]) for bust in bill.busts if bill.lines[bust.index].kind == MAIN]
    if busts:
        sizes = [LEAST + (MOST - LEAST) * (bust.tokens / biggest) ** 0.5 for bust, _ in busts]
        text = [
            f"{escape(bust.level)}: {escape(bust.cause)}<br>{bust.tokens:,} tokens paid for again<br>{stamp(bust.at)}"
            for bust, _ in busts
        ]
        found.append(
            _points(
                arm, "busts", [bust.number for bust, _ in busts], [line.prompt for _, line in busts], text,
                {"size": sizes, "color": shade, "opacity": 0.7, "line": {"color": "#ffffff", "width": 1.2}},
            )
        )  # fmt: skip
    added = [line for line in bill.lines if line.kind not in (MAIN, REFUSED)]
    if added:
        text = [f"{escape(line.kind)} call: {_request(line)}, {line.sums.output:,} tokens of output" for line in added]
        marker = {"size": 9, "symbol": "triangle-down-open", "color": shade, "line": {"width": 1.6}}
        numbers, sizes_of = [line.number for line in added], [line.prompt for line in added]
        found.append(_points(arm, "added calls", numbers, sizes_of, text, marker))
    refused = [line for line in bill.lines if line.kind == REFUSED]
    if refused:
        text = [f"refused: {escape(line.cause)}<br>{line.prompt:,} tokens, not sent" for line in refused]
        marker = {"size": 6, "symbol": "x-thin-open", "color": shade, "opacity": 0.55}
        numbers, sizes_of = [line.number for line in refused], [line.prompt for line in refused]
        found.append(_points(arm, "refused", numbers, sizes_of, text, marker))
    return found


def _points(arm: str, what: str, x: list[int], y: list[int], text: list[str], marker: Figure) -> Figure:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"{escape(arm)}: {what} ({len(x)})",
        "x": x,
        "y": y,
        "text": text,
        "marker": marker,
        "hovertemplate": f"<b>{escape(arm)}</b>, request %{{x}}<br>%{{text}}<extra></extra>",
    }


def _request(line: Line) -> str:
    sums = line.sums
    return (
        f"{line.prompt:,} tokens ({escape(line.level)}: {escape(line.cause)})<br>"
        f"{sums.read:,} read, {sums.first:,} first written, {sums.rewritten:,} paid again, {sums.uncached:,} uncached"
    )


def costs(arms: Mapping[str, Bill]) -> Figure:
    """Cumulative cost of the arms over requests, added calls counted where they fell."""
    data: list[Figure] = []
    for place, (arm, bill) in list(enumerate(arms.items()))[::-1]:
        spent = 0.0
        x: list[int] = []
        y: list[float] = []
        for line in bill.lines:
            spent += line.sums.cost
            if not x or x[-1] != line.number:
                x.append(line.number)
                y.append(0)
            y[-1] = round(spent, 1)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": escape(arm),
                "legendrank": place,
                "x": x,
                "y": y,
                "hovertemplate": f"<b>{escape(arm)}</b>, request %{{x}}<br>%{{y:,.0f}} so far<extra></extra>",
                "line": {"color": colour(place), "width": 2.4 if place == 0 else 1.8},
            }
        )
    return {"data": data, "layout": _layout("request", "cost so far (uncached input tokens)")}


def _layout(x: str, y: str) -> Figure:
    return {
        "font": _FONT,
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "margin": {"l": 80, "r": 24, "t": 16, "b": 56},
        "height": 460,
        "hovermode": "closest",
        "hoverlabel": {"align": "left", "bgcolor": "#0f172a", "font": {"color": "#f8fafc", "size": 12}},
        "legend": {"orientation": "h", "y": -0.2, "x": 0, "itemsizing": "constant"},
        "xaxis": {**_GRID, "title": {"text": x}, "rangemode": "tozero"},
        "yaxis": {**_GRID, "title": {"text": y}, "rangemode": "tozero", "separatethousands": True},
    }

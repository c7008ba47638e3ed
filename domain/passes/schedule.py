"""How full the window is, and what the schedule says (``transform.md`` 1.1, 1.3, 1.6, 1.7)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from ..policy import Settings
from ..state import State
from ..window import EMERGENCY, Bands, Window, bands, family, measure, percent

Schedule: TypeAlias = Literal["defer", "pressure", "idle"]
Source: TypeAlias = Literal["none", "provider", "estimated", "synthetic"]

UNMANAGED_FACTOR = 11
"""In tenths: a first pass over 1.1 windows counts as an emergency (7.4)."""


class Pressure(msgspec.Struct, frozen=True):
    """One usage figure with where it came from. ``percent`` in 1/100 of a per cent, -1 = unknown."""

    tokens: int
    percent: int
    source: Source
    window: Window
    bands: Bands
    settings: Settings
    limit: int

    @property
    def force(self) -> bool:
        """Usage is in the force band."""
        return self.percent >= self.bands.force

    @property
    def emergency(self) -> bool:
        """Usage is at 95% of the hard window, or the provider said overflow."""
        if self.source == "synthetic":
            return True
        return self.percent >= 0 and percent(self.tokens, self.window.hard) >= EMERGENCY


def gauge(
    state: State, model: str, context: int, output: int, settings: Settings, size: int, *, moved: bool = False
) -> Pressure:
    """Return what the pass knows of its window.

    ``size``: local tokens of this request before any drop. ``moved``: the host took another path than the last request
    had, so that request's size says nothing of this one's.
    """
    same = model == state.model
    learnt = state.learnt[1] if state.learnt and state.learnt[0] == model else 0
    limit = min(context, learnt) if context and learnt else context or learnt
    window = measure(limit, output, settings, family(state.codec, model))
    limits = bands(settings, window)
    tokens, source = _tokens(state, model, same=same, moved=size if moved else None)
    value = percent(tokens, window.soft) if source != "none" else -1
    if same and state.overflow is not None:
        value, source = max(value, EMERGENCY), "synthetic"
    elif (not state.passes or state.unmanaged) and state.primary and limit:
        whole = calibrated(state, model, size)
        if whole * 10 > limit * UNMANAGED_FACTOR:
            value, tokens, source = max(value, EMERGENCY), whole, "synthetic"
    return Pressure(tokens, value, source, window, limits, settings, limit)


def _tokens(state: State, model: str, *, same: bool, moved: int | None) -> tuple[int, Source]:
    """Return the newest usage the provider gave for the present prefix, else a calibrated count of the request."""
    if moved is not None:
        return calibrated(state, model, moved), "estimated"
    if same and state.usage is not None:
        return state.usage.tokens, "provider"
    if state.last is None or not same:
        return 0, "none"
    return calibrated(state, model, state.last.tokens), "estimated"


def calibrated(state: State, model: str, tokens: int) -> int:
    """Return local ``tokens`` in the provider's count, by the ratio its last answers showed (unknown: 1)."""
    return tokens * ratio(state, model) // 1000


def ratio(state: State, model: str) -> int:
    """Return how many provider tokens 1,000 local ones are for a model."""
    return state.ratios.get(model, 1000)


def schedule(state: State, pressure: Pressure, now: int, answered: bool) -> Schedule:
    """Return what 1.6 says. ``answered``: this pass brings the model's answer to the last request."""
    if pressure.percent >= pressure.bands.execute:
        return "pressure"
    return "idle" if idle(state, pressure.settings.ttl, now, answered) else "defer"


def idle(state: State, ttl: int, now: int, answered: bool) -> bool:
    """Whether the provider's cache outlived its lifetime, unseen by any rebuild (convention 11)."""
    heard = max(state.response_now, state.last.now if answered and state.last else 0)
    return heard > 0 and heard >= state.rebuilt_now and now - heard > ttl

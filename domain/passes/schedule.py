"""How full the window is, and what the schedule says (``transform.md`` 1.1, 1.3, 1.6, 1.7)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from ..policy import Settings
from ..state import State
from ..window import EMERGENCY, Bands, Window, bands, family, measure, narrow, percent, wall
from . import recovery

Schedule: TypeAlias = Literal["defer", "pressure", "idle"]
Source: TypeAlias = Literal["none", "provider", "estimated", "synthetic", "proactive"]

FULL = ("synthetic", "proactive")
"""Sources of usage that put a pass at 95% whatever the figure is."""
SCALE = 750, 1_600
"""Between which ratios the tokenizers of known models lie (1.5), in provider tokens for 1,000 of ours."""
STEP = 50
"""It is rounded to this: what a host writes around its content may not decide what is protected (PAR-5)."""
UNMANAGED_FACTOR = 11
"""In tenths: a first pass over 1.1 windows counts as an emergency (7.4)."""


class Pressure(msgspec.Struct, frozen=True):
    """One usage figure with where it came from. ``percent`` in 1/100 of a per cent, -1 = unknown.

    ``unheard``: another model than this one had the session until now, so the figure is an estimate without a word of
    this one's provider. It says what a rebuild that comes anyway may do, and is the reason of none (1.3).
    """

    tokens: int
    percent: int
    source: Source
    window: Window
    bands: Bands
    settings: Settings
    limit: int
    unheard: bool = False

    @property
    def force(self) -> bool:
        """Usage is in the force band."""
        return self.percent >= self.bands.force

    @property
    def presses(self) -> bool:
        """Usage in the force band is a reason of a rebuild."""
        return self.force and not self.unheard

    @property
    def told(self) -> bool:
        """The session counts as at 95% whatever the figure: an overflow, another model, a first look."""
        return self.source in FULL

    @property
    def emergency(self) -> bool:
        """Usage is at 95% of the hard window, or the provider said overflow, or another model's usage is over it.

        A window that was assumed has no such end (4.2).
        """
        if self.told:
            return True
        return self.window.known and self.percent >= 0 and percent(self.tokens, self.window.hard) >= EMERGENCY

    @property
    def ceiling(self) -> bool:
        """Whether it is known how much is too much: the window is, or the provider refused a request (4.2)."""
        return self.window.known or self.told


def gauge(
    state: State, model: str, context: int, output: int, settings: Settings, size: int, *, moved: bool = False
) -> Pressure:
    """Return what the pass knows of its window.

    ``size``: local tokens of this request before any drop. ``moved``: the host took another path than the last request
    had, so that request's size says nothing of this one's.
    """
    same = model == state.model
    window, limit = window_of(state, model, context, output, settings)
    limits = bands(settings, window)
    tokens, source = _tokens(state, model, same=same, size=size, moved=moved)
    value = percent(tokens, window.soft) if source != "none" else -1
    whole = calibrated(state, model, size)
    overflow = recovery.armed(state, model, size) if settings.compaction else None
    if overflow is not None:
        # what the provider counted is of the request it refused; this one may be another (1.3)
        local = size or overflow.tokens
        tokens = recovery.expected(overflow, local) or calibrated(state, model, local)
        value, source = max(percent(tokens, window.soft), EMERGENCY), "synthetic"
    elif not same and state.primary and context and (proven := _measured(state)) > context:
        value, tokens, source = max(percent(proven, window.soft), EMERGENCY), proven, "proactive"
    elif (not state.passes or state.unmanaged) and state.primary and 0 < limit * UNMANAGED_FACTOR < whole * 10:
        value, tokens, source = max(value, EMERGENCY), whole, "synthetic"
    unheard = not same and source == "estimated"
    return Pressure(tokens, value, source, window, limits, settings, limit, unheard)


def window_of(state: State, model: str, context: int, output: int, settings: Settings) -> tuple[Window, int]:
    """Return the windows of a model and its limit (0: unknown), narrowed by what its provider's refusals told (1.5).

    A limit of the prompt alone is used as it is; one of prompt and answer together is reserved from like any window.
    """
    learnt = state.learnt[1] if state.learnt and state.learnt[0] == model else 0
    kind, end = family(state.codec, model), wall(state.codec, model)
    if learnt and state.bounds == "prompt":
        whole = measure(context, output, settings, kind, end)
        return narrow(whole, learnt), min(context, learnt) if context else learnt
    limit = min(context, learnt) if context and learnt else context or learnt
    return measure(limit, output, settings, kind, end), limit


def _measured(state: State) -> int:
    """Return what the present model counted for the last request, 0 where it has told nothing yet (1.8, proactive)."""
    if state.usage is not None:
        return state.usage.tokens
    known = state.last is not None and state.model in state.ratios
    return calibrated(state, state.model, state.last.tokens) if known and state.last is not None else 0


def _tokens(state: State, model: str, *, same: bool, size: int, moved: bool) -> tuple[int, Source]:
    """Return the newest usage the provider gave for the present prefix, else a calibrated count of the request."""
    if moved or (state.last is not None and not same):
        return calibrated(state, model, size), "estimated"
    if same and state.usage is not None:
        return state.usage.tokens, "provider"
    if state.last is None:
        return 0, "none"
    return calibrated(state, model, state.last.tokens), "estimated"


def calibrated(state: State, model: str, tokens: int) -> int:
    """Return local ``tokens`` in the provider's count, by the ratio its last answers showed (unknown: 1)."""
    return tokens * ratio(state, model) // 1000


def ratio(state: State, model: str) -> int:
    """Return how many provider tokens 1,000 local ones are for a model."""
    return state.ratios.get(model, 1000)


def scale(state: State, model: str) -> int:
    """Return the ratio a rebuild adopts for the size of single parts, as far as tokenizers differ (1.5).

    More is what a host keeps to itself (its system text, its tools), which no part is larger for.
    """
    coarse = (ratio(state, model) + STEP // 2) // STEP * STEP
    return min(max(coarse, SCALE[0]), SCALE[1])


def schedule(state: State, pressure: Pressure, now: int, answered: bool) -> Schedule:
    """Return what 1.6 says. ``answered``: this pass brings the model's answer to the last request."""
    if pressure.percent >= pressure.bands.execute and not pressure.unheard:
        return "pressure"
    return "idle" if idle(state, pressure.settings.ttl, now, answered) else "defer"


def idle(state: State, ttl: int, now: int, answered: bool) -> bool:
    """Whether the provider's cache outlived its lifetime, unseen by any rebuild (convention 11)."""
    heard = max(state.response_now, state.last.now if answered and state.last else 0)
    return heard > 0 and heard >= state.rebuilt_now and now - heard > ttl

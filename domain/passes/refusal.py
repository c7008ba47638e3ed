"""When a decided request must not be sent (``transform.md`` 7.3, 7.4, as ruled).

A healthy pass is never refused for a local estimate alone: only a provider's own refusal, a first pass that nothing has
ever managed, one at 95% that waited for its summary in vain, or protected results that cannot fit by themselves, is.
"""

from __future__ import annotations

from .. import costs, tools
from .. import events as ev
from ..errors import counted
from ..identity import Scene
from ..state import Overflow, State
from . import protection, recovery
from .given import Given
from .schedule import Pressure, calibrated

LEAVE = "Let what is marked leave (foldlog flush, or /ctx-flush in the host)"
"""What helps where something is marked."""


def check(state: State, given: Given, gauge: Pressure, outcome: ev.Pass) -> ev.PassRefused | None:
    """Return the refusal of the pass that would produce ``outcome``, None where it may be sent."""
    if not gauge.settings.compaction:
        return None
    tokens = calibrated(state, given.model, outcome.tokens)
    over = gauge.limit > 0 and tokens > gauge.limit
    overflow = recovery.pending(state, given.model)
    if overflow is not None:
        if recovery.fits(state, overflow, outcome.tokens, tokens, gauge.limit):
            return None
        tokens = recovery.expected(overflow, outcome.tokens) or tokens
        code, message = "CONTEXT_FULL", _full(state, overflow, tokens, gauge.limit)
    elif gauge.source == "synthetic" and over:
        code = "UNMANAGED_OVER_WINDOW"
        message = (
            f"this session is longer than the model's window and has not been managed before: about {tokens:,} of "
            f"{gauge.limit:,} tokens. Nothing was sent. Use a model with a larger window, or start a new session."
        )
    elif over and state.primary and gauge.emergency and state.running(given.at):
        code = "EMERGENCY_FAIL_CLOSED"
        message = (
            f"the session is full (about {tokens:,} of {gauge.limit:,} tokens) and the summary that makes room is not "
            "ready yet. Nothing was sent. Send the message again in a moment."
        )
    elif over and _complete(state, given) and (kept := _kept(state, given)) > gauge.limit:
        code = "PROTECTED_OVER_LIMIT"
        message = (
            f"the results of protected tools alone take about {kept:,} of {gauge.limit:,} tokens: the request cannot "
            f"fit. Nothing was sent. {LEAVE + ', p' if state.queue else 'P'}rotect fewer of them (protected_tools), or "
            "take back the newest message."
        )
    else:
        return None
    return ev.PassRefused(given.at, "", state.passes + 1, given.now, code, message, tokens, gauge.limit, given.waited)


def _complete(state: State, given: Given) -> bool:
    """Whether our count is good enough to refuse by: all of the request is known, and the provider has counted one."""
    return bool(given.system and given.tools and given.model in state.ratios)


def _kept(state: State, given: Given) -> int:
    """Return what the results no lane takes out by itself cost, in the provider's count."""
    scene = Scene(state, given.seen)
    begin = scene.start()
    sent = [n for n in tools.here(scene)[0] if scene.index(state.tags[n - 1].m) >= begin]
    spared = protection.spared(state, frozenset(), sent, dict(given.settings.spared))
    tags = (state.tags[number - 1] for number in spared)
    held = sum(costs.of(state, tag) for tag in tags if tag.status == "active")
    return calibrated(state, given.model, held)


def _full(state: State, overflow: Overflow, tokens: int, limit: int) -> str:
    """Say that the session does not fit, why nothing more was tried, what takes the room, and what can be done."""
    said = f"the provider refused it at {overflow.used:,} tokens" if overflow.used else "the provider refused it"
    if overflow.used and overflow.output:
        said += f" and {overflow.output:,} more for the answer"
    if overflow.tries >= recovery.TRIES:
        said = f"the provider refused {overflow.tries} requests in a row, each smaller than the one before"
    number, size = recovery.largest(state)
    most = ""
    if number:
        named = f"§{number}§" if state.reduce else f"a {_NAMES[state.tags[number - 1].kind]}"
        most = f" The largest part is {named} with about {counted(size, 'token')}."
    room = f"{limit:,}" if limit else "an unknown number of"
    return (
        f"the session does not fit the model's window ({said}; the window holds {room} tokens, this request about "
        f"{tokens:,}), and nothing more of it can be summarised or dropped by itself.{most} {_way_out(state)}"
    )


_NAMES = {"tool": "tool result", "file": "file", "text": "message"}


def _way_out(state: State) -> str:
    """Say what a person can do: the turn is refused, so the agent can mark nothing."""
    if not state.primary:
        return "Give the subagent a smaller task, or a model with a larger window."
    others = "take back the newest message, use a model with a larger window, or start a new session."
    if state.queue:
        return f"{LEAVE}, {others}"
    return others.capitalize()

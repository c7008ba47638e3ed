"""What observed sessions cost as they were sent, and about what they would have cost."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..billing.profiles import Profile
from ..billing.provider import Provider
from ..simulate.wirelog import WireLog


class Tally(msgspec.Struct):
    """What an observed session cost so far, in units of an uncached input token. ``would`` is estimated.

    ``requests``: those the provider answered with figures and foldlog could have made; ``largest``, ``largest_would``:
    tokens of the largest prompt.
    """

    profile: str
    requests: int = 0
    cost: float = 0.0
    would: float = 0.0
    largest: int = 0
    largest_would: int = 0
    refused: int = 0


class Watch(msgspec.Struct):
    """One observed session: the simulated provider of what would have been sent, and the sums."""

    lines: WireLog
    provider: Provider
    profile: Profile
    tally: Tally


def cost_of(profile: Profile, input: int | None, read: int | None, write: int | None, output: int) -> float:
    """Return what figures cost under a profile, in units of an uncached input token."""
    return (input or 0) + (read or 0) * profile.read + (write or 0) * profile.write + output * profile.output


def summary(tallies: Iterable[Tally]) -> str:
    """Return one line for people: what was sent cost this, what foldlog would have sent that (estimated)."""
    found = [one for one in tallies if one.requests]
    if not found:
        return "observed: no request was answered with figures"
    sent, would = sum(one.cost for one in found), sum(one.would for one in found)
    less = (1 - would / sent) * 100 if sent else 0.0
    largest, largest_would = max(one.largest for one in found), max(one.largest_would for one in found)
    return (
        f"observed {sum(one.requests for one in found):,} requests of {len(found):,} sessions: as sent {sent:,.0f}, "
        f"with foldlog about {would:,.0f} (estimated; in units of an uncached input token, prices {found[0].profile}), "
        f"{abs(less):.0f} % {'less' if less >= 0 else 'more'}; largest prompt {largest:,}, with foldlog about "
        f"{largest_would:,} tokens"
    )

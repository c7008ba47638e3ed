"""What observed sessions cost as they were sent, and about what they would have cost."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ...domain.errors import counted
from ..billing.profiles import Profile
from ..billing.provider import Provider
from ..billing.records import Block
from ..simulate.wirelog import WireLog


class Tally(msgspec.Struct):
    """What an observed session cost so far, in units of an uncached input token.

    ``requests``: those the provider answered with figures and foldlog could have made. ``cost``: as sent, by the
    provider's figures. ``plain``, ``would``: as sent and as foldlog would have sent it, both *estimated*, by the same
    rules. ``largest``, ``largest_would``: tokens of the largest prompt.
    """

    profile: str
    requests: int = 0
    cost: float = 0.0
    plain: float = 0.0
    would: float = 0.0
    largest: int = 0
    largest_would: int = 0


class Watch(msgspec.Struct):
    """One observed session: what would have been sent and what was, each to a simulated provider, and the sums.

    ``known``: blocks of the client's messages; ``lead``: of its tools and system (``regions``).
    """

    lines: WireLog
    ours: Provider
    plain: Provider
    profile: Profile
    tally: Tally
    known: dict[bytes, tuple[Block, ...]] = {}
    regions: tuple[bytes, bytes] = (b"", b"")
    lead: tuple[Block, ...] = ()


def cost_of(profile: Profile, input: int | None, read: int | None, write: int | None, output: int) -> float:
    """Return what figures cost under a profile, in units of an uncached input token."""
    return (input or 0) + (read or 0) * profile.read + (write or 0) * profile.write + output * profile.output


def summary(tallies: Iterable[Tally]) -> str:
    """Return one line for people: what was sent cost this, and foldlog's would have differed by that (estimated)."""
    found = [one for one in tallies if one.requests]
    if not found:
        return "observed: no request was answered with figures"
    plain, would = sum(one.plain for one in found), sum(one.would for one in found)
    less = (1 - would / plain) * 100 if plain else 0.0
    requests = counted(sum(one.requests for one in found), "request")
    largest, largest_would = max(one.largest for one in found), max(one.largest_would for one in found)
    return (
        f"observed {requests} of {counted(len(found), 'session')}, which cost "
        f"{sum(one.cost for one in found):,.0f} by the provider's figures. Estimated under {found[0].profile}: "
        f"{plain:,.0f} as sent, {would:,.0f} with foldlog, {abs(less):.0f} % {'less' if less >= 0 else 'more'} (in "
        f"units of an uncached input token); largest prompt {largest:,}, with foldlog about {largest_would:,} tokens"
    )

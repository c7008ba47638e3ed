"""What a running proxy tells: its health, its feed of requests, and sums over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from ...domain.errors import FoldlogError, counted
from .. import local
from ..proxy.feed import Moment

FOLDS = ("soft", "hard")
FIRST = "first_render"
"""The reason of a session's first pass, which is a fold only by name."""


class Totals:
    """Sums over the moments taken in."""

    def __init__(self) -> None:
        self.requests = self.folds = self.rebuilds = self.refused = self.failed = 0
        self.prompt = self.cached = self.output = self.saved = 0
        self.lost: Counter[str] = Counter()
        self.sessions: dict[str, Moment] = {}

    def take(self, moment: Moment) -> None:
        """Take in one request."""
        self.requests += 1
        self.folds += moment.level in FOLDS and FIRST not in moment.reasons
        self.rebuilds += moment.level == "soft+"
        self.refused += moment.outcome == "refused" or moment.level == "refused"
        self.failed += moment.outcome in {"overflow", "broken", "not_processed"}
        if moment.prompt > 0:
            self.prompt += moment.prompt
            self.cached += max(moment.cached, 0)
        self.output += max(moment.output, 0)
        self.saved += max(moment.saved, 0)
        if moment.lost > 0:
            self.lost[moment.cause or "unexplained"] += moment.lost
        if moment.session:
            self.sessions[moment.session] = moment

    @property
    def share(self) -> float | None:
        """The share of all prompt tokens read from the cache, None where no figures came."""
        return self.cached / self.prompt if self.prompt else None

    def line(self) -> str:
        """Return one line for people."""
        pieces = [counted(self.requests, "request"), counted(self.folds, "fold")]
        if self.rebuilds:
            pieces.append(counted(self.rebuilds, "rebuild"))
        if self.refused:
            pieces.append(f"{self.refused:,} refused")
        if self.failed:
            pieces.append(f"{self.failed:,} failed")
        if self.share is not None:
            pieces.append(f"{self.share:.1%} of {self.prompt:,} prompt tokens read from the cache")
        if self.saved:
            pieces.append(f"about {self.saved:,} tokens of history not sent")
        for cause, tokens in self.lost.most_common(3):
            pieces.append(f"{tokens:,} tokens of cache lost ({cause})")
        return ", ".join(pieces)


def health(run: local.Run, seconds: float = 2.0) -> dict[str, Any] | None:
    """Return what the proxy says of itself, None where it does not answer as ours does."""
    import httpx

    try:
        with httpx.Client(timeout=seconds, trust_env=False) as client:
            got = client.get(f"{run.url}/foldlog/health", headers=_token(run))
        said = msgspec.json.decode(got.content) if got.status_code == 200 else None
    except (httpx.HTTPError, msgspec.MsgspecError):
        return None
    return said if isinstance(said, dict) else None


def follow(run: local.Run) -> Iterator[Moment | None]:
    """Yield the requests of a running proxy: the last ones first, then as they end, until it ends.

    None is yielded where it only says that it lives. Raises ``FoldlogError`` where it does not let us watch.
    """
    import httpx

    try:
        with (
            httpx.Client(timeout=httpx.Timeout(5.0, read=60.0), trust_env=False) as client,
            client.stream("GET", f"{run.url}/foldlog/events", headers=_token(run)) as got,
        ):
            if got.status_code != 200:
                raise FoldlogError(
                    f"the proxy on port {run.port} does not let us watch; restart it", value=got.status_code
                )
            for line in got.iter_lines():
                if line.startswith("data:"):
                    try:
                        yield msgspec.json.decode(line.removeprefix("data:").strip(), type=Moment)
                    except msgspec.MsgspecError:
                        continue
                elif line.startswith(":"):
                    yield None
    except httpx.HTTPError:
        return


def _token(run: local.Run) -> dict[str, str]:
    return {"authorization": f"Bearer {run.token}"}

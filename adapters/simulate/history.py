"""Summaries of a played session: made inline, as a background run would have been done by then (convention 26)."""

from __future__ import annotations

from collections.abc import Callable

from ... import engine
from ...domain.passes.given import Outlook
from ..historian import Historian
from ..models.summarizers import Summarised, Summarizer


class Beside:
    """The historian of one played session. It looks at the session's own time, which the one behind it does not know.

    ``failures``: what was said of runs that gave nothing.
    """

    def __init__(self, summarizer: Summarizer, count: Callable[[str], int]) -> None:
        self.failures: list[str] = []
        self._historian = Historian(summarizer, count, inline=True, told=self.failures.append)
        self._now = 0
        self._billed = 0

    def look(self, core: engine.Core, now: int) -> None:
        """Look whether a summary is due at ``now`` (ms UTC, 0 = unknown: the wall clock's), and make it at once.

        All later looks are at that time too.
        """
        self._now = now
        self.watch(core)

    def calls(self) -> list[Summarised]:
        """Return the calls of a model made since this was asked last; what asks none has none."""
        made = self._historian.calls[self._billed :]
        self._billed = len(self._historian.calls)
        return [] if self._historian.summarizer.free else made

    def outlook(self, core: engine.Core) -> Outlook:
        return self._historian.outlook(core)

    def watch(self, core: engine.Core) -> None:
        self._historian.consider(core, self._now or None)

    def relieve(self, core: engine.Core, waiting: Callable[[str], None] | None) -> bool:
        return self._historian.relieve(core, waiting)

    def close(self) -> None:
        self._historian.close()

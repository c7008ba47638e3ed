"""Summaries made by the host itself: the process asks a plugin that is connected, which asks the host's own model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...domain.errors import FoldlogError
from ..models.summarizers.http import Answer, summarised, whole
from ..models.summarizers.port import Job, Summarised, Summarizer, failure
from ..models.summarizers.prompt import SYSTEM, user_prompt

TIMEOUT_MS = 240_000
"""What a hidden run of the host may take: less than a run's lease."""
Ask = Callable[[str, dict[str, Any], float], Any]
"""Asks the plugin that serves a session: stream, parameters, seconds -> its result. None: no plugin can do it."""


class Relay:
    """Where the summariser, made with the engine, finds the connections, which are there only later."""

    def __init__(self) -> None:
        self.ask: Ask | None = None


class ThroughHost:
    """A summariser that asks the host of the session; where none can be asked, ``otherwise`` makes the summary."""

    name = "host"
    free = False

    def __init__(self, relay: Relay, otherwise: Summarizer) -> None:
        self.relay = relay
        self.otherwise = otherwise

    def __call__(self, job: Job) -> Summarised:
        """Summarise. Raises ``FoldlogError`` (``SUMMARISER``) where the host was asked and failed."""
        values = {"system": SYSTEM, "prompt": user_prompt(job), "timeout_ms": TIMEOUT_MS}
        try:
            answer = self.relay.ask(job.session, values, TIMEOUT_MS / 1000 + 5) if self.relay.ask is not None else None
        except TimeoutError:
            raise failure("timeout", "the host's hidden run did not end in time", again=True) from None
        except ConnectionError:
            answer = None  # the host has ended meanwhile
        except FoldlogError as error:
            raise failure("refused", f"the host's hidden run failed: {error.message}", again=True) from None
        if answer is None:
            return self.otherwise(job)
        given = answer if isinstance(answer, dict) else {}
        text, model = given.get("text"), given.get("model")
        if not isinstance(text, str) or not text.strip():
            raise failure("rubbish", "the host's hidden run gave no text")
        made = Answer(
            text,
            "",
            False,
            whole(given.get("input")),
            whole(given.get("output")),
            model if isinstance(model, str) else "",
        )
        return summarised(made)

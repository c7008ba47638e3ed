"""Summaries from Anthropic's Messages API, or an endpoint that speaks it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from . import http
from .port import Job, Summarised, failure
from .prompt import SYSTEM, user_prompt

VERSION = "2023-06-01"
"""The API's version, which it wants in a header."""


class Anthropic(msgspec.Struct, frozen=True):
    """Asks ``model`` at ``base_url`` + ``/v1/messages``; the fields are those of ``OpenAI``. The API demands
    ``max_tokens``.
    """

    model: str
    base_url: str = "https://api.anthropic.com"
    key_env: str = "ANTHROPIC_API_KEY"
    timeout: float = 300.0
    max_tokens: int = 8_192
    sleep: Callable[[float], None] = time.sleep
    draw: Callable[[float, float], float] = random.uniform

    def __post_init__(self) -> None:
        http.endpoint(self.base_url, self.key_env, self.timeout)

    @property
    def name(self) -> str:
        return f"anthropic:{self.model}"

    @property
    def free(self) -> bool:
        return False

    def __call__(self, job: Job) -> Summarised:
        """Ask once, with bounded retries. Raises ``FoldlogError`` with code ``SUMMARISER``."""
        body = {
            "model": self.model,
            "max_tokens": self.max_tokens,
            "system": SYSTEM,
            "messages": [{"role": "user", "content": user_prompt(job)}],
        }
        url = self.base_url.rstrip("/").removesuffix("/v1") + "/v1/messages"
        return http.summarised(
            _read(
                http.ask(http.Endpoint(url, self.key_env, self.timeout, self.sleep, self.draw), _headers, body),
                self.model,
            )
        )


def _headers(key: str) -> Mapping[str, str]:
    return {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}


def _read(given: Any, model: str) -> http.Answer:
    answer = http.table(given)
    content = answer.get("content")
    if not isinstance(content, list):
        raise failure("rubbish", "the endpoint's answer holds no content; is the address that of a Messages API?")
    usage = http.table(answer.get("usage"))
    # cached input is counted beside the rest, and was read all the same
    read = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    said = answer.get("model")
    return http.Answer(
        text=http.joined(content, "text", "text"),
        thought=http.joined(content, "thinking", "thinking"),
        cut=answer.get("stop_reason") == "max_tokens",
        input_tokens=sum(http.whole(usage.get(key)) for key in read),
        output_tokens=http.whole(usage.get("output_tokens")),
        model=said if isinstance(said, str) else model,
    )

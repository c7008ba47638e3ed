"""Summaries from any endpoint that speaks OpenAI's chat completions."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from . import http
from .port import Job, Summarised, failure
from .prompt import SYSTEM, user_prompt


class OpenAI(msgspec.Struct, frozen=True):
    """Asks ``model`` at ``base_url`` + ``/chat/completions``. ``max_tokens`` 0: the endpoint's own limit.

    ``key_env`` names the environment variable with the key (``""``: none is sent); the key itself is never kept.
    ``timeout`` in seconds, a call. Raises ``OptionError`` for settings that cannot work.
    """

    model: str
    base_url: str = "https://api.openai.com/v1"
    key_env: str = "OPENAI_API_KEY"
    timeout: float = 300.0
    max_tokens: int = 0
    sleep: Callable[[float], None] = time.sleep
    draw: Callable[[float, float], float] = random.uniform

    def __post_init__(self) -> None:
        http.endpoint(self.base_url, self.key_env, self.timeout)

    @property
    def name(self) -> str:
        return f"openai:{self.model}"

    @property
    def free(self) -> bool:
        return False

    def __call__(self, job: Job) -> Summarised:
        """Ask once, with bounded retries. Raises ``FoldlogError`` with code ``SUMMARISER``."""
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": user_prompt(job)}]
        body: dict[str, Any] = {"model": self.model, "messages": messages}
        if self.max_tokens:
            body["max_tokens"] = self.max_tokens
        url = self.base_url.rstrip("/") + "/chat/completions"
        return http.summarised(
            _read(
                http.ask(http.Endpoint(url, self.key_env, self.timeout, self.sleep, self.draw), _headers, body),
                self.model,
            )
        )


def _headers(key: str) -> Mapping[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def _read(given: Any, model: str) -> http.Answer:
    answer = http.table(given)
    choices = answer.get("choices")
    choice = http.table(choices[0]) if isinstance(choices, list) and choices else {}
    message = choice.get("message")
    if not isinstance(message, dict):
        raise failure(
            "rubbish", "the endpoint's answer holds no message; is the address that of a chat completions API?"
        )
    usage = http.table(answer.get("usage"))
    thought = next((message[k] for k in ("reasoning_content", "reasoning") if isinstance(message.get(k), str)), "")
    said = answer.get("model")
    return http.Answer(
        text=http.joined(message.get("content"), "text", "text"),
        thought=thought,
        cut=choice.get("finish_reason") == "length",
        input_tokens=http.whole(usage.get("prompt_tokens")),
        output_tokens=http.whole(usage.get("completion_tokens")),
        model=said if isinstance(said, str) else model,
    )

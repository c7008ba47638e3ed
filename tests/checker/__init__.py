"""An independent validity checker of provider requests: numbered rules, mutants and recorded requests.

It imports nothing of the product and only the standard library, so that a mistake of the product cannot hide in it.
The rules are written down in ``specs/provider-rules.md``; each module's ``RULES`` holds the same ids.
"""

from . import anthropic, examples, mutants, openai, pi, recorded, responses, thinking
from .base import Violation, broken_rules

__all__ = [
    "Violation", "anthropic", "broken_rules", "examples", "mutants", "openai", "pi", "recorded", "responses",
    "thinking",
]  # fmt: skip

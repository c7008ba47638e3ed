"""Summarisers: one port, three adapters. ``Extractive`` needs nothing and is the default; the others ask a model over
HTTP.
"""

from __future__ import annotations

from .anthropic import Anthropic
from .extractive import Extractive
from .openai import OpenAI
from .port import Job, Summarised, Summarizer, Summary, ToolCall, ToolOutput, Turn, failure, kind_of
from .turns import turn

__all__ = [
    "Anthropic",
    "Extractive",
    "Job",
    "OpenAI",
    "Summarised",
    "Summarizer",
    "Summary",
    "ToolCall",
    "ToolOutput",
    "Turn",
    "failure",
    "kind_of",
    "turn",
]

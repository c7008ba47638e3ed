"""Summarisers: one port, three adapters. ``extractive`` needs nothing and is the default; the others ask a model over HTTP."""

from __future__ import annotations

from .extractive import Extractive
from .port import Job, Summarised, Summarizer, Summary, ToolCall, ToolOutput, Turn, failure, kind_of

__all__ = [
    "Extractive",
    "Job",
    "Summarised",
    "Summarizer",
    "Summary",
    "ToolCall",
    "ToolOutput",
    "Turn",
    "failure",
    "kind_of",
]

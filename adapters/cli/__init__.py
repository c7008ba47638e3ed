"""The command line: ``foldlog`` (rules: ``specs/cli.md``)."""

from __future__ import annotations

from .program import app, main

__all__ = ["app", "main"]

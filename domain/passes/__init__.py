"""Deciding one pass: window and bands, schedule, triggers, permission, lanes, refusal (``design.md`` 5)."""

"""OpenCode 1.x (``hosts.md`` 1)."""

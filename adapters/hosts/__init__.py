"""Hosts whose plugin sends messages to a local foldlog process (``hosts.md`` 1 and 3)."""

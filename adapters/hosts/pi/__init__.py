"""Pi and OMP (``hosts.md`` 3)."""

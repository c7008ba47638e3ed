"""Everything that touches the world: hosts, models, traces, the command line."""

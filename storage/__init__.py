"""The log: append-only streams with a verified chain, chunks, heads and snapshots."""

"""Recorded and generated coding sessions, as the requests their host would have sent (``specs/traces.md``)."""

"""The wires the proxy speaks: one module a provider API."""

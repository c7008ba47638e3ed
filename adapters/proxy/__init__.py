"""The proxy between a coding agent and its provider: ``foldlog serve``."""

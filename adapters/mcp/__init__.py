"""The agent's tools over MCP."""

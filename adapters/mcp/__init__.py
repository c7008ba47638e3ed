"""The agent's tools, and their server over MCP (rules: ``specs/mcp.md``)."""

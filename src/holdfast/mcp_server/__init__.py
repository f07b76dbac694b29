"""Holdfast as an MCP server: past conversations, memory and the agent itself, for other agents."""

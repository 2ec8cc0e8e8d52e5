"""MCP server: fleet operations as tools for coding agents."""

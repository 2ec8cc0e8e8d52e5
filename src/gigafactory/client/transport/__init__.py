"""Transports of the client: blocking sockets, httpx, server-sent events."""

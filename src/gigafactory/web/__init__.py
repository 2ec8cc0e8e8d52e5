"""Web pages: server-rendered HTML over the coordinator, with live updates."""

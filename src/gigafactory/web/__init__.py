"""The web pages: server-rendered over the coordinator's own verbs, and live."""

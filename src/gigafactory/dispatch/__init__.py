"""Adapters of the dispatch port: message delivery to factories."""

"""The index: a coordinator's in-memory view of the store, kept current by the change feed."""

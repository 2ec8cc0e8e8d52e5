"""`aq dash`: terminal dashboard of a fleet or a folder."""

"""`aq dash`: the fleet, or a folder, in a terminal."""

"""`aq demo`: a small fleet with scripted agents in a temporary folder."""

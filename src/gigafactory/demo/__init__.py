"""`aq demo`: a small fleet at play, in a folder that is gone afterwards."""

"""The fleet in memory: factories, pools, matching, seats and seat usage."""

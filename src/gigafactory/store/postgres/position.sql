-- Return the position of the newest event.
SELECT position
  FROM feed

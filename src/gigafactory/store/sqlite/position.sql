-- The position of the newest event.
SELECT position
  FROM feed

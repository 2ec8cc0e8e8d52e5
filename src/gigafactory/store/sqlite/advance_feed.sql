-- Set the position of the newest event.
UPDATE feed
   SET position = ?

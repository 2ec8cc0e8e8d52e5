-- Free a unique key.
DELETE FROM hold
 WHERE key = ?

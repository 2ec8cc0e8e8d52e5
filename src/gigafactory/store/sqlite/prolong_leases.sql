-- Extend every lease by this many milliseconds.
UPDATE lease
   SET expires_at = expires_at + ?

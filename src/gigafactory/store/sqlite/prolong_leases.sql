-- Let every lease last longer by this many milliseconds.
UPDATE lease
   SET expires_at = expires_at + ?

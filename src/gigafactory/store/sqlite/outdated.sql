-- Return records of a kind that have expired by a time, earliest expiry first.
SELECT doc
  FROM record
 WHERE kind = ?
   AND expires_at <= ?
 ORDER BY expires_at, key
 LIMIT ?

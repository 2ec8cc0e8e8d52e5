-- Return records of a kind that have expired by a time, earliest expiry first.
SELECT doc
  FROM record
 WHERE kind = $1
   AND expires_at <= $2
 ORDER BY expires_at, key
 LIMIT $3

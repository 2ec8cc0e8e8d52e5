-- Return records of a kind in the order of their keys: within a range, after a key.
SELECT doc
  FROM record
 WHERE kind = ?
   AND key >= ?
   AND key < ?
   AND key > ?
 ORDER BY key
 LIMIT ?

-- Return records of a kind in the order of their keys: within a range, after a key.
SELECT doc
  FROM record
 WHERE kind = $1
   AND key >= $2
   AND key < $3
   AND key > $4
 ORDER BY key
 LIMIT $5

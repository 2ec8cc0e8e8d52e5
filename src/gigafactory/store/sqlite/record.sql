-- Return one record of a kind.
SELECT doc
  FROM record
 WHERE kind = ?
   AND key = ?

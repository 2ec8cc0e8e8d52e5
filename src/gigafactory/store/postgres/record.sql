-- One record of a kind.
SELECT doc
  FROM record
 WHERE kind = $1
   AND key = $2

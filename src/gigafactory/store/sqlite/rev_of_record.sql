-- How often a record was written.
SELECT rev
  FROM record
 WHERE kind = ?
   AND key = ?

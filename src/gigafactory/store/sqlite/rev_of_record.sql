-- Return the revision of a record.
SELECT rev
  FROM record
 WHERE kind = ?
   AND key = ?

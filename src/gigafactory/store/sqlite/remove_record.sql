-- Delete records; their revisions were checked in this transaction.
  WITH given (kind, key) AS (
       VALUES (?, ?)
       )
DELETE FROM record
 WHERE (kind, key) IN (SELECT kind, key FROM given)

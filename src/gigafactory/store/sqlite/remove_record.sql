-- Forget records; their revisions were checked in this transaction.
DELETE FROM record
 WHERE (kind, key) IN (
       VALUES (?, ?)
       )

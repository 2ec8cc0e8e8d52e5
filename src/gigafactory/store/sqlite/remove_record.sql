-- Forget a record; its revision was checked in this transaction.
DELETE FROM record
 WHERE kind = ?
   AND key = ?

-- Delete a job; its state was checked in this transaction.
DELETE FROM job
 WHERE id = ?

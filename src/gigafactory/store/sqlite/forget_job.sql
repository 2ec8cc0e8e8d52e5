-- Remove a job, whose state was looked at in this transaction.
DELETE FROM job
 WHERE id = ?

-- Forget leases that have ended.
DELETE FROM lease
 WHERE (job_id, epoch) IN (
       VALUES (?, ?)
       )

-- Delete leases that have ended.
  WITH given (job_id, epoch) AS (
       VALUES (?, ?)
       )
DELETE FROM lease
 WHERE (job_id, epoch) IN (SELECT job_id, epoch FROM given)

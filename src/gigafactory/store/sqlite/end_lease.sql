-- Forget a lease that has ended.
DELETE FROM lease
 WHERE job_id = ?
   AND epoch = ?

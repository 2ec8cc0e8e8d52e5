-- Return the current state of one lease.
SELECT job_id, epoch, factory_id, live, expires_at
  FROM lease
 WHERE job_id = ?
   AND epoch = ?

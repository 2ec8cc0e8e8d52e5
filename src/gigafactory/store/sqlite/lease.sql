-- One lease as it is now.
SELECT job_id, epoch, factory_id, live, expires_at
  FROM lease
 WHERE job_id = ?
   AND epoch = ?

-- Return the job that owns a unique key.
SELECT job_id
  FROM hold
 WHERE key = ?

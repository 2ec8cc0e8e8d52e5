-- Return the unique keys in a range, with the jobs that own them.
SELECT key, job_id
  FROM hold
 WHERE key >= ?
   AND key < ?

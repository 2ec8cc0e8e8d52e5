-- Return the jobs that own these unique keys.
SELECT key, job_id
  FROM hold
 WHERE key = ANY ($1)

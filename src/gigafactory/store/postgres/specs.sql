-- Return the specs of these jobs.
SELECT job_id, manifest, body
  FROM spec
 WHERE job_id = ANY ($1)

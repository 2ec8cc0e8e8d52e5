-- The manifest and the body of a job.
SELECT job_id, manifest, body
  FROM spec
 WHERE job_id = $1

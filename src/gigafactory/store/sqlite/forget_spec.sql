-- Delete the spec of a job.
DELETE FROM spec
 WHERE job_id = ?

-- Remove what was asked for of a job that goes.
DELETE FROM spec
 WHERE job_id = ?

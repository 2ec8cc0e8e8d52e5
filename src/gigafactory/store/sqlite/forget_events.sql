-- Remove the story of a job that goes.
DELETE FROM event
 WHERE job_id = ?

-- Delete the events of a job.
DELETE FROM event
 WHERE job_id = ?

-- Free keys that are a job's.
DELETE FROM hold
 WHERE (key, job_id) IN (
       VALUES (?, ?)
       )

-- Free unique keys if this job owns them.
  WITH given (key, job_id) AS (
       VALUES (?, ?)
       )
DELETE FROM hold
 WHERE (key, job_id) IN (SELECT key, job_id FROM given)

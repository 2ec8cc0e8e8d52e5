-- Jobs no longer wait for others.
  WITH given (dep_id, job_id) AS (
       VALUES (?, ?)
       )
DELETE FROM dep
 WHERE (dep_id, job_id) IN (SELECT dep_id, job_id FROM given)

-- Delete dependencies.
  WITH given (dep_id, job_id) AS (
       VALUES (?, ?)
       )
DELETE FROM dep
 WHERE (dep_id, job_id) IN (SELECT dep_id, job_id FROM given)

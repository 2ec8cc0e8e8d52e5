-- Jobs no longer wait for others.
DELETE FROM dep
 WHERE (dep_id, job_id) IN (
       VALUES (?, ?)
       )

-- Return the jobs that own these unique keys (a JSON list).
SELECT key, job_id
  FROM hold
 WHERE key IN (SELECT value FROM json_each(?))

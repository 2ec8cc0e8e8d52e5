-- Return the specs of these jobs (a JSON list of ids).
SELECT job_id, manifest, body
  FROM spec
 WHERE job_id IN (SELECT value FROM json_each(?))

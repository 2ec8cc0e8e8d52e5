-- How far each of these jobs (a JSON list of ids) is.
SELECT id, rev, seq
  FROM job
 WHERE id IN (SELECT value FROM json_each(?))

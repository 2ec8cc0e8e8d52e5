-- Return revision and newest sequence number of each of these jobs (a JSON list of ids).
SELECT id, rev, seq
  FROM job
 WHERE id IN (SELECT value FROM json_each(?))

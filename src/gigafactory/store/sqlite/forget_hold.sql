-- Free a key, if it is this job's.
DELETE FROM hold
 WHERE key = ?
   AND job_id = ?

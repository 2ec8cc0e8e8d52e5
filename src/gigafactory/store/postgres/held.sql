-- All unique keys in a range, with their owners.
SELECT key, job_id
  FROM hold
 WHERE key >= $1
   AND key < $2

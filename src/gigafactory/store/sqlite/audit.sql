-- Return events that concern no job, newest first, of these products (a JSON list, or NULL for all).
SELECT position, job_id, seq, product_id, type, at, actor, stage, data
  FROM event
 WHERE job_id IS NULL
   AND position < ?1
   AND (?2 IS NULL OR product_id IN (SELECT value FROM json_each(?2)))
 ORDER BY position DESC
 LIMIT ?3

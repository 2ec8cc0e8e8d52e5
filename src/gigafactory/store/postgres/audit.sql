-- Return events that concern no job, newest first, of these products (NULL for all).
SELECT position, job_id, seq, product_id, type, at, actor, stage, data
  FROM event
 WHERE job_id IS NULL
   AND position < $1
   AND ($2::text[] IS NULL OR product_id = ANY ($2))
 ORDER BY position DESC
 LIMIT $3

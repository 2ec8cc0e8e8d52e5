-- Return a job's events above a sequence number, in order.
SELECT position, job_id, seq, product_id, type, at, actor, stage, data
  FROM event
 WHERE job_id = ?
   AND seq > ?
 ORDER BY seq
 LIMIT ?

-- Return a job's events above a sequence number, in order.
SELECT position, job_id, seq, product_id, type, at, actor, stage, data
  FROM event
 WHERE job_id = $1
   AND seq > $2
 ORDER BY seq
 LIMIT $3

-- Events above a position in commit order, with their jobs as they are now.
SELECT event.position, event.job_id, event.seq, event.product_id, event.type, event.at,
       event.actor, event.stage, event.data, job.doc,
       (SELECT json_object_agg(epoch, expires_at) FROM lease WHERE lease.job_id = job.id)
  FROM event
  LEFT JOIN job ON job.id = event.job_id
 WHERE event.position > $1
 ORDER BY event.position
 LIMIT $2

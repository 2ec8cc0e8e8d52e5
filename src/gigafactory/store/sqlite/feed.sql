-- Return events above a position in commit order, with the current state of their jobs.
SELECT event.position, event.job_id, event.seq, event.product_id, event.type, event.at,
       event.actor, event.stage, event.data, job.doc,
       (SELECT json_group_object(epoch, expires_at) FROM lease WHERE lease.job_id = job.id)
  FROM event
  LEFT JOIN job ON job.id = event.job_id
 WHERE event.position > ?
 ORDER BY event.position
 LIMIT ?

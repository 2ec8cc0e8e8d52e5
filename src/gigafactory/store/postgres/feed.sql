-- Return events above a position in commit order; the last event of each job has its current state.
SELECT event.position, event.job_id, event.seq, event.product_id, event.type, event.at,
       event.actor, event.stage, event.data, job.doc,
       CASE
           WHEN job.doc IS NOT NULL
           THEN (SELECT json_object_agg(epoch, expires_at) FROM lease WHERE lease.job_id = job.id)
       END AS expiries
  FROM (
        SELECT *,
               CASE
                   WHEN row_number() OVER (PARTITION BY job_id ORDER BY position DESC) = 1
                   THEN job_id
               END AS told
          FROM (SELECT * FROM event WHERE position > $1 ORDER BY position LIMIT $2) AS page
       ) AS event
  LEFT JOIN job ON job.id = event.told
 ORDER BY event.position

-- Return jobs with a lease that has expired by a time, earliest expiry first.
SELECT job.doc,
       (SELECT json_object_agg(epoch, expires_at) FROM lease WHERE lease.job_id = job.id)
  FROM (
        SELECT job_id, min(expires_at) AS gone
          FROM lease
         WHERE expires_at <= $1
         GROUP BY job_id
         ORDER BY gone, job_id
         LIMIT $2
       ) AS due
  JOIN job ON job.id = due.job_id
 ORDER BY due.gone, due.job_id

-- Return the unfinished jobs that wait for a job.
SELECT job.doc,
       (SELECT json_object_agg(epoch, expires_at) FROM lease WHERE lease.job_id = job.id)
  FROM dep
  JOIN standing ON standing.job_id = dep.job_id
  JOIN job ON job.id = dep.job_id
 WHERE dep.dep_id = $1
   AND standing.stage NOT IN ('shipped', 'failed', 'dead_letter', 'cancelled')
 ORDER BY job.id

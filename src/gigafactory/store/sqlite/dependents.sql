-- Return the unfinished jobs that wait for a job.
SELECT job.doc,
       (SELECT json_group_object(epoch, expires_at) FROM lease WHERE lease.job_id = job.id)
  FROM dep
  JOIN job ON job.id = dep.job_id
 WHERE dep.dep_id = ?
   AND job.stage NOT IN ('shipped', 'failed', 'dead_letter', 'cancelled')
 ORDER BY job.id

-- One job, with the newest expiry of each lease.
SELECT job.doc,
       (SELECT json_object_agg(epoch, expires_at) FROM lease WHERE lease.job_id = job.id)
  FROM job
 WHERE job.id = $1

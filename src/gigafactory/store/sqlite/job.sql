-- Return one job, with the current expiry of each lease.
SELECT job.doc,
       (SELECT json_group_object(epoch, expires_at) FROM lease WHERE lease.job_id = job.id)
  FROM job
 WHERE job.id = ?

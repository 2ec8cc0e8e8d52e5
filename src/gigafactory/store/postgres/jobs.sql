-- Return the existing jobs among these, with the current expiry of each lease.
SELECT job.doc,
       (SELECT json_object_agg(epoch, expires_at) FROM lease WHERE lease.job_id = job.id)
  FROM job
 WHERE job.id = ANY ($1)

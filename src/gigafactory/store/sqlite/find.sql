-- Return one page of jobs in the order of their ids, from candidates found along indexes.
SELECT job.doc,
       (SELECT json_group_object(epoch, expires_at) FROM lease WHERE lease.job_id = job.id)
  FROM (SELECT n, id FROM ({arms}) ORDER BY id {order} LIMIT {limit}) AS page
  JOIN job ON job.n = page.n
 ORDER BY page.id {order}

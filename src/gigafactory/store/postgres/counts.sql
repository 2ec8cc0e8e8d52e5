-- Return the number of jobs in each stage, of these products (NULL for all).
SELECT stage, sum(jobs)::bigint
  FROM tally
 WHERE $1::text[] IS NULL OR product_id = ANY ($1)
 GROUP BY stage

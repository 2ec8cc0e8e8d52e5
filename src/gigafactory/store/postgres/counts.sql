-- How many jobs of these products (NULL for all) stand in each stage.
SELECT stage, sum(jobs)::bigint
  FROM tally
 WHERE $1::text[] IS NULL OR product_id = ANY ($1)
 GROUP BY stage

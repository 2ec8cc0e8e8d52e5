-- Return the number of jobs in each stage, of these products (a JSON list, or NULL for all).
SELECT stage, sum(jobs)
  FROM tally
 WHERE ?1 IS NULL OR product_id IN (SELECT value FROM json_each(?1))
 GROUP BY stage

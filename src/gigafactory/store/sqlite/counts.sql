-- How many jobs of these products (a JSON list, or NULL for all) stand in each stage.
SELECT stage, sum(jobs)
  FROM tally
 WHERE ?1 IS NULL OR product_id IN (SELECT value FROM json_each(?1))
 GROUP BY stage

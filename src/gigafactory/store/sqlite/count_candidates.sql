-- Count the jobs that match some conditions, up to a limit.
SELECT count(*)
  FROM (SELECT 1 FROM ({arms}) LIMIT ?)

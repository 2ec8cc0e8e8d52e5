-- Count the jobs that match a search, up to a limit.
SELECT count(*)
  FROM (SELECT 1 FROM search WHERE search MATCH ? LIMIT ?)

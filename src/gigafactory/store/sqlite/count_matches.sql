-- How many jobs match a search, counted no further than a limit.
SELECT count(*)
  FROM (SELECT 1 FROM search WHERE search MATCH ? LIMIT ?)

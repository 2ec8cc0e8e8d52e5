-- How many jobs some conditions leave, counted no further than a limit.
SELECT count(*)
  FROM (SELECT 1 FROM ({arms}) LIMIT ?)

-- When each factory was last heard of.
SELECT factory_id, at
  FROM seen

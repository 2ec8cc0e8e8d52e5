-- Return when each factory was last seen.
SELECT factory_id, at
  FROM seen

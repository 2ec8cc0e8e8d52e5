-- Select the candidates for a page along one index, in the order of their ids.
SELECT n, id
  FROM (SELECT n, id FROM job {where} ORDER BY {id} {order} LIMIT {limit})

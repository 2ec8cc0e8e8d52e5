-- Records of a kind that may be forgotten by a moment, the longest gone first.
SELECT doc
  FROM record
 WHERE kind = $1
   AND expires_at <= $2
 ORDER BY expires_at, key
 LIMIT $3

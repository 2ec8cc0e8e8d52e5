-- Records of a kind that may be forgotten by a moment, the longest gone first.
SELECT doc
  FROM record
 WHERE kind = ?
   AND expires_at <= ?
 ORDER BY expires_at, key
 LIMIT ?

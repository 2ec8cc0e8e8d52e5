-- Remove a job from the search index, which needs the indexed words.
INSERT INTO search (search, rowid, words)
SELECT 'delete', n, words
  FROM job
 WHERE id = ?

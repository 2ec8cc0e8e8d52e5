-- Take a job out of the search, by the words that it is in there with.
INSERT INTO search (search, rowid, words)
SELECT 'delete', n, words
  FROM job
 WHERE id = ?

-- Return the revision of a job and the sequence number of its newest event.
SELECT rev, seq
  FROM job
 WHERE id = ?

-- How far a job is: its revision, and the number of its newest event.
SELECT rev, seq
  FROM job
 WHERE id = ?

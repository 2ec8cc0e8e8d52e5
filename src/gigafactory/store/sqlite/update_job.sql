-- Keep the next state of jobs that stay where they are listed.
  WITH given (rev, seq, doc, id) AS (
       VALUES (?, ?, ?, ?)
       )
UPDATE job
   SET rev = given.rev, seq = given.seq, doc = given.doc
  FROM given
 WHERE job.id = given.id

-- Write the next state of jobs whose listed columns stay the same.
  WITH given (rev, seq, doc, id) AS (
       VALUES (?, ?, ?, ?)
       )
UPDATE job
   SET rev = given.rev, seq = given.seq, doc = given.doc
  FROM given
 WHERE job.id = given.id

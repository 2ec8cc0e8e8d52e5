-- Write the next state of jobs whose stage or engine has changed.
  WITH given (stage, engine, rev, seq, doc, id) AS (
       VALUES (?, ?, ?, ?, ?, ?)
       )
UPDATE job
   SET stage = given.stage, engine = given.engine, rev = given.rev, seq = given.seq, doc = given.doc
  FROM given
 WHERE job.id = given.id

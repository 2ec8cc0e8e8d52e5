-- Keep the next state of jobs that are listed under another stage or engine.
  WITH given (stage, engine, rev, seq, doc, id) AS (
       VALUES (?, ?, ?, ?, ?, ?)
       )
UPDATE job
   SET stage = given.stage, engine = given.engine, rev = given.rev, seq = given.seq, doc = given.doc
  FROM given
 WHERE job.id = given.id

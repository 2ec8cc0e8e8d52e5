-- Write the next state of jobs whose name, priority or other listed columns have changed.
  WITH given (
       id, product_id, name, stage, priority, repo, profile, engine, parent_id, rev, seq, words, doc
       ) AS (
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
       )
UPDATE job
   SET product_id = given.product_id, name = given.name, stage = given.stage,
       priority = given.priority, repo = given.repo, profile = given.profile,
       engine = given.engine, parent_id = given.parent_id, rev = given.rev, seq = given.seq,
       words = given.words, doc = given.doc
  FROM given
 WHERE job.id = given.id

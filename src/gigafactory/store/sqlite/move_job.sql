-- Keep the next state of a job that is listed under another stage or engine.
UPDATE job
   SET stage = ?, engine = ?, rev = ?, seq = ?, doc = ?
 WHERE id = ?

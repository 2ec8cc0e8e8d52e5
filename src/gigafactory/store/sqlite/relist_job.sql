-- Keep the next state of a job that is listed under another name, priority or the like.
UPDATE job
   SET product_id = ?2, name = ?3, stage = ?4, priority = ?5, repo = ?6, profile = ?7, engine = ?8,
       parent_id = ?9, rev = ?10, seq = ?11, words = ?12, doc = ?13
 WHERE id = ?1

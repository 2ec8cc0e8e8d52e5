-- Keep the next state of a job that stays where it is listed.
UPDATE job
   SET rev = ?, seq = ?, doc = ?
 WHERE id = ?

-- A job no longer waits for another.
DELETE FROM dep
 WHERE dep_id = ?
   AND job_id = ?

-- Delete a finished job with its spec, events and keys, if it is still in the state that was read.
-- Returns no row and changes nothing if the job has changed or an unfinished job waits for it.
WITH gone AS (
    DELETE FROM job
     WHERE id = $1
       AND rev = $2
       AND seq = $3
       AND NOT EXISTS (
        SELECT
          FROM dep
          JOIN standing ON standing.job_id = dep.job_id
         WHERE dep.dep_id = $1
           AND standing.stage NOT IN ('shipped', 'failed', 'dead_letter', 'cancelled')
       )
    RETURNING id
), counted AS (
    DELETE FROM standing USING gone WHERE standing.job_id = gone.id
    RETURNING product_id, stage
), tallied AS (
    UPDATE tally
       SET jobs = tally.jobs - 1
      FROM counted
     WHERE tally.product_id = counted.product_id
       AND tally.stage = counted.stage
), listed AS (
    DELETE FROM listing USING gone WHERE listing.job_id = gone.id
), searched AS (
    DELETE FROM search USING gone WHERE search.job_id = gone.id
), asked AS (
    DELETE FROM spec USING gone WHERE spec.job_id = gone.id
), told AS (
    DELETE FROM event USING gone WHERE event.job_id = gone.id
), held AS (
    DELETE FROM hold USING gone WHERE hold.key = ANY ($4) AND hold.job_id = gone.id
), waited AS (
    DELETE FROM dep USING gone WHERE dep.dep_id = ANY ($5) AND dep.job_id = gone.id
)
SELECT id FROM gone

-- Return one page of jobs in the order of their ids, read along access paths ("ways"): each a product
-- with a stage, one of the two, or everything. Each has an index in id order, so few jobs are read.
-- Words use their index ($11), or are checked on the first jobs of the list ($16). A condition is
-- skipped if its value is NULL; the plan is made for the values of each call.
SELECT job.doc,
       (SELECT json_object_agg(epoch, expires_at) FROM lease WHERE lease.job_id = job.id)
  FROM (
        SELECT first.job_id
          FROM (
                SELECT found.job_id
                  FROM unnest($1::text[], $2::text[]) AS way (product_id, stage)
                 CROSS JOIN LATERAL (
                        SELECT standing.job_id
                          FROM standing
                          LEFT JOIN listing ON listing.job_id = standing.job_id
                         WHERE {along}
                           AND ($3::text[] IS NULL OR standing.product_id = ANY ($3))
                           AND ($4::text[] IS NULL OR standing.stage = ANY ($4))
                           AND ($5::text IS NULL OR standing.engine = $5)
                           AND ($6::text IS NULL OR listing.name = $6)
                           AND ($7::text IS NULL OR listing.repo = $7)
                           AND ($8::text IS NULL OR listing.profile = $8)
                           AND ($9::text IS NULL OR listing.priority = $9)
                           AND ($10::text IS NULL OR listing.parent_id = $10)
                           AND ($17::text[] IS NULL OR listing.parent_id = ANY ($17))
                           AND ($11::text IS NULL
                                OR standing.job_id = ANY (ARRAY(
                                    SELECT job_id FROM search WHERE words @@ $11::tsquery
                                   )))
                           AND ($12::text IS NULL
                                OR standing.job_id = ANY (ARRAY(
                                    SELECT job_id FROM lease WHERE factory_id = $12
                                   )))
                           AND ($13::text IS NULL OR standing.job_id {beyond} $13)
                           AND ($13::text IS NULL OR {lead}.job_id {beyond} $13)
                         ORDER BY {lead}.job_id USING {before}
                         LIMIT $15
                       ) AS found
                 ORDER BY found.job_id {order}
                 LIMIT $15
               ) AS first
         WHERE $16::text IS NULL
            OR (SELECT words @@ $16::tsquery FROM search WHERE search.job_id = first.job_id)
         ORDER BY first.job_id {order}
         LIMIT $14
       ) AS page
  JOIN job ON job.id = page.job_id
 ORDER BY job.id {order}

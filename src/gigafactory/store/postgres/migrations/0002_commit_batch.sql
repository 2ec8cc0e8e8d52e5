-- The rows of a batch: `g` is the number of the group of writes that a row belongs to, `n` the number
-- of a check within its group.
CREATE TYPE job_check AS (g bigint, n int, id text, rev bigint, seq bigint);
CREATE TYPE record_check AS (g bigint, n int, kind text, key text, rev bigint);
CREATE TYPE lease_check AS (g bigint, n int, job_id text, epoch bigint, at bigint);
CREATE TYPE hold_taken AS (g bigint, n int, key text, job_id text);
CREATE TYPE hold_freed AS (g bigint, key text, job_id text);
CREATE TYPE job_listed AS (
    g bigint, id text, product_id text, name text, stage text, priority text, repo text,
    profile text, engine text, parent_id text, rev bigint, seq bigint, words text, doc text
);
CREATE TYPE job_changed AS (g bigint, id text, rev bigint, seq bigint, doc text);
CREATE TYPE job_moved AS (g bigint, id text, stage text, engine text);
CREATE TYPE jobs_counted AS (g bigint, product_id text, stage text, jobs bigint);
CREATE TYPE spec_created AS (g bigint, job_id text, manifest text, body text);
CREATE TYPE lease_named AS (g bigint, job_id text, epoch bigint);
CREATE TYPE lease_written AS (
    g bigint, job_id text, epoch bigint, factory_id text, live boolean, expires_at bigint
);
CREATE TYPE leases_prolonged AS (g bigint, by bigint);
CREATE TYPE dep_named AS (g bigint, dep_id text, job_id text);
CREATE TYPE record_written AS (
    g bigint, kind text, key text, product_id text, rev bigint, expires_at bigint, doc text
);
CREATE TYPE record_named AS (g bigint, kind text, key text);
CREATE TYPE factory_seen AS (g bigint, factory_id text, at bigint);
CREATE TYPE event_told AS (
    g bigint, job_id text, seq bigint, product_id text, type text, at bigint, actor text,
    stage text, data text
);

-- Commit the groups of writes whose checks pass, each atomically, and return which failed and why.
-- No two groups of a batch may share a key that one of them writes.
-- `base` is the position of the feed before; the events of the stored groups follow it in order.
-- `refused` has the numbers of the groups that were not stored, `numbers` their first failed check,
-- and `owners` the owner of the key if a taken key is the reason.
-- The caller must restrict the planner to indexes, since a table may have grown a thousandfold since
-- its plan was made.
CREATE FUNCTION commit_batch(
    job_checks job_check[], record_checks record_check[], expiries lease_check[],
    renewals lease_check[], takes hold_taken[], frees hold_freed[],
    created job_listed[], changed job_changed[], moved job_moved[], relisted job_listed[],
    counted jobs_counted[], specs spec_created[],
    ended lease_named[], granted lease_written[], kept lease_written[],
    prolonged leases_prolonged[], deps_gone dep_named[], deps_new dep_named[],
    added record_written[], replaced record_written[], removed record_named[],
    heard factory_seen[], events event_told[],
    OUT base bigint, OUT refused bigint[], OUT numbers int[], OUT owners text[]
)
LANGUAGE plpgsql
AS $$
DECLARE
    told bigint;
BEGIN
    SELECT position INTO STRICT base FROM feed FOR UPDATE;

    SELECT coalesce(array_agg(g), '{}'), array_agg(n), array_agg(owner)
      INTO refused, numbers, owners
      FROM (
        SELECT DISTINCT ON (g) g, n, owner
          FROM (
            SELECT c.g, c.n, NULL AS owner
              FROM unnest(job_checks) AS c
              LEFT JOIN job ON job.id = c.id
             WHERE coalesce(job.rev, 0) <> c.rev
                OR job.seq <> c.seq
            UNION ALL
            SELECT c.g, c.n, NULL
              FROM unnest(record_checks) AS c
              LEFT JOIN record ON record.kind = c.kind AND record.key = c.key
             WHERE coalesce(record.rev, 0) <> c.rev
            UNION ALL
            SELECT c.g, c.n, NULL
              FROM unnest(expiries) AS c
              LEFT JOIN lease ON lease.job_id = c.job_id AND lease.epoch = c.epoch
             WHERE lease.expires_at IS NULL
                OR lease.expires_at > c.at
            UNION ALL
            SELECT c.g, c.n, NULL
              FROM unnest(renewals) AS c
              LEFT JOIN lease ON lease.job_id = c.job_id AND lease.epoch = c.epoch
             WHERE lease.live IS NOT TRUE
            UNION ALL
            SELECT c.g, c.n, hold.job_id
              FROM unnest(takes) AS c
              JOIN hold ON hold.key = c.key
             WHERE NOT EXISTS (
                SELECT FROM unnest(frees) AS f
                 WHERE f.g = c.g
                   AND f.key = c.key
                   AND f.job_id = hold.job_id
             )
          ) AS broken
         ORDER BY g, n
      ) AS first;

    IF created IS NOT NULL THEN
        INSERT INTO job
        SELECT c.id, c.rev, c.seq, c.doc
          FROM unnest(created) AS c WHERE c.g <> ALL (refused);
        INSERT INTO listing
        SELECT c.id, c.product_id, c.name, c.priority, c.repo, c.profile, c.parent_id
          FROM unnest(created) AS c WHERE c.g <> ALL (refused);
        INSERT INTO standing
        SELECT c.id, c.product_id, c.stage, c.engine
          FROM unnest(created) AS c WHERE c.g <> ALL (refused);
        INSERT INTO search
        SELECT c.id, array_to_tsvector(string_to_array(c.words, ' '))
          FROM unnest(created) AS c WHERE c.g <> ALL (refused);
    END IF;
    IF specs IS NOT NULL THEN
        INSERT INTO spec
        SELECT c.job_id, c.manifest, c.body
          FROM unnest(specs) AS c
         WHERE c.g <> ALL (refused)
            ON CONFLICT (job_id) DO UPDATE SET manifest = excluded.manifest, body = excluded.body;
    END IF;
    IF changed IS NOT NULL THEN
        UPDATE job
           SET rev = c.rev, seq = c.seq, doc = c.doc
          FROM unnest(changed) AS c
         WHERE job.id = c.id
           AND c.g <> ALL (refused);
    END IF;
    IF moved IS NOT NULL THEN
        UPDATE standing
           SET stage = c.stage, engine = c.engine
          FROM unnest(moved) AS c
         WHERE standing.job_id = c.id
           AND c.g <> ALL (refused);
    END IF;
    IF relisted IS NOT NULL THEN
        UPDATE listing
           SET product_id = c.product_id, name = c.name, priority = c.priority, repo = c.repo,
               profile = c.profile, parent_id = c.parent_id
          FROM unnest(relisted) AS c
         WHERE listing.job_id = c.id
           AND c.g <> ALL (refused);
        UPDATE standing
           SET product_id = c.product_id, stage = c.stage, engine = c.engine
          FROM unnest(relisted) AS c
         WHERE standing.job_id = c.id
           AND c.g <> ALL (refused);
        UPDATE search
           SET words = array_to_tsvector(string_to_array(c.words, ' '))
          FROM unnest(relisted) AS c
         WHERE search.job_id = c.id
           AND c.g <> ALL (refused);
    END IF;
    IF counted IS NOT NULL THEN
        INSERT INTO tally
        SELECT c.product_id, c.stage, sum(c.jobs)
          FROM unnest(counted) AS c
         WHERE c.g <> ALL (refused)
         GROUP BY c.product_id, c.stage
            ON CONFLICT (product_id, stage) DO UPDATE SET jobs = tally.jobs + excluded.jobs;
    END IF;

    IF frees IS NOT NULL THEN
        DELETE FROM hold
         USING unnest(frees) AS c
         WHERE hold.key = c.key
           AND hold.job_id = c.job_id
           AND c.g <> ALL (refused);
    END IF;
    IF takes IS NOT NULL THEN
        INSERT INTO hold
        SELECT c.key, c.job_id
          FROM unnest(takes) AS c WHERE c.g <> ALL (refused);
    END IF;

    IF prolonged IS NOT NULL THEN
        UPDATE lease
           SET expires_at = lease.expires_at + c.by
          FROM (
            SELECT sum(p.by)::bigint AS by FROM unnest(prolonged) AS p WHERE p.g <> ALL (refused)
          ) AS c
         WHERE c.by IS NOT NULL;
    END IF;
    IF ended IS NOT NULL THEN
        DELETE FROM lease
         USING unnest(ended) AS c
         WHERE lease.job_id = c.job_id
           AND lease.epoch = c.epoch
           AND c.g <> ALL (refused);
    END IF;
    IF granted IS NOT NULL THEN
        INSERT INTO lease
        SELECT c.job_id, c.epoch, c.factory_id, c.live, c.expires_at
          FROM unnest(granted) AS c WHERE c.g <> ALL (refused);
    END IF;
    IF kept IS NOT NULL THEN
        UPDATE lease
           SET live = c.live, expires_at = coalesce(c.expires_at, lease.expires_at)
          FROM unnest(kept) AS c
         WHERE lease.job_id = c.job_id
           AND lease.epoch = c.epoch
           AND c.g <> ALL (refused);
    END IF;
    IF renewals IS NOT NULL THEN
        UPDATE lease
           SET expires_at = c.at
          FROM (
            SELECT r.job_id, r.epoch, max(r.at) AS at
              FROM unnest(renewals) AS r
             WHERE r.g <> ALL (refused)
             GROUP BY r.job_id, r.epoch
          ) AS c
         WHERE lease.job_id = c.job_id
           AND lease.epoch = c.epoch
           AND lease.expires_at < c.at;
    END IF;

    IF deps_gone IS NOT NULL THEN
        DELETE FROM dep
         USING unnest(deps_gone) AS c
         WHERE dep.dep_id = c.dep_id
           AND dep.job_id = c.job_id
           AND c.g <> ALL (refused);
    END IF;
    IF deps_new IS NOT NULL THEN
        INSERT INTO dep
        SELECT c.dep_id, c.job_id
          FROM unnest(deps_new) AS c WHERE c.g <> ALL (refused);
    END IF;

    IF added IS NOT NULL THEN
        INSERT INTO record
        SELECT c.kind, c.key, c.product_id, c.rev, c.expires_at, c.doc
          FROM unnest(added) AS c WHERE c.g <> ALL (refused);
    END IF;
    IF replaced IS NOT NULL THEN
        UPDATE record
           SET product_id = c.product_id, rev = c.rev, expires_at = c.expires_at, doc = c.doc
          FROM unnest(replaced) AS c
         WHERE record.kind = c.kind
           AND record.key = c.key
           AND c.g <> ALL (refused);
    END IF;
    IF removed IS NOT NULL THEN
        DELETE FROM record
         USING unnest(removed) AS c
         WHERE record.kind = c.kind
           AND record.key = c.key
           AND c.g <> ALL (refused);
    END IF;
    IF heard IS NOT NULL THEN
        INSERT INTO seen
        SELECT c.factory_id, max(c.at)
          FROM unnest(heard) AS c
         WHERE c.g <> ALL (refused)
         GROUP BY c.factory_id
            ON CONFLICT (factory_id) DO UPDATE SET at = greatest(seen.at, excluded.at);
    END IF;

    IF events IS NOT NULL THEN
        INSERT INTO event
        SELECT base + row_number() OVER (ORDER BY c.place), c.job_id, c.seq, c.product_id, c.type,
               c.at, c.actor, c.stage, c.data
          FROM unnest(events) WITH ORDINALITY
               AS c (g, job_id, seq, product_id, type, at, actor, stage, data, place)
         WHERE c.g <> ALL (refused);
        GET DIAGNOSTICS told = ROW_COUNT;
        IF told > 0 THEN
            UPDATE feed SET position = base + told;
            PERFORM pg_notify(current_schema(), (base + told)::text);
        END IF;
    END IF;
END
$$;

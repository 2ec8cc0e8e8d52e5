-- Where everything is kept.
-- Text is compared by code point, as Python does; times are milliseconds since 1970.

-- The one row that every batch takes first: batches follow each other, so positions are in commit order.
CREATE TABLE feed (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    position bigint  NOT NULL
) WITH (fillfactor = 10);

INSERT INTO feed (position) VALUES (0);

-- No column but the key is indexed, so that a job's next state mostly lands on the same page.
CREATE TABLE job (
    id  text   COLLATE "C" PRIMARY KEY,
    rev bigint NOT NULL,
    seq bigint NOT NULL,
    doc text   NOT NULL
) WITH (fillfactor = 70, toast_tuple_target = 8160);

-- What a job is listed by and what hardly ever changes.
-- The ids in these indexes have an order that the key's index does not have, so that a list which asks
-- for that order is read along the condition that it names, whatever the planner hopes of the key's.
CREATE TABLE listing (
    job_id     text COLLATE "C" PRIMARY KEY,
    product_id text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    priority   text COLLATE "C" NOT NULL,
    repo       text COLLATE "C",
    profile    text COLLATE "C",
    parent_id  text COLLATE "C"
);

CREATE INDEX listing_by_name ON listing (name, job_id text_pattern_ops);
CREATE INDEX listing_by_product_priority
    ON listing (product_id, priority, job_id text_pattern_ops);
CREATE INDEX listing_by_priority ON listing (priority, job_id text_pattern_ops);
CREATE INDEX listing_by_repo ON listing (repo, job_id text_pattern_ops) WHERE repo IS NOT NULL;
CREATE INDEX listing_by_profile ON listing (profile, job_id text_pattern_ops) WHERE profile IS NOT NULL;
CREATE INDEX listing_by_parent ON listing (parent_id, job_id text_pattern_ops) WHERE parent_id IS NOT NULL;

-- What it is listed by and what changes all the time; few indexes have to follow.
CREATE TABLE standing (
    job_id     text COLLATE "C" PRIMARY KEY,
    product_id text COLLATE "C" NOT NULL,
    stage      text COLLATE "C" NOT NULL,
    engine     text COLLATE "C"
) WITH (fillfactor = 80);

CREATE INDEX standing_by_product_stage ON standing (product_id, stage, job_id text_pattern_ops);
CREATE INDEX standing_by_stage ON standing (stage, job_id text_pattern_ops);
CREATE INDEX standing_by_engine ON standing (engine, job_id text_pattern_ops) WHERE engine IS NOT NULL;

CREATE TABLE search (
    job_id text     COLLATE "C" PRIMARY KEY,
    words  tsvector NOT NULL
);

-- Without a pending list, no commit has to pay for the words of many others.
CREATE INDEX search_by_words ON search USING gin (words) WITH (fastupdate = off);

CREATE TABLE spec (
    job_id   text COLLATE "C" PRIMARY KEY,
    manifest text NOT NULL,
    body     text NOT NULL
);

CREATE TABLE event (
    position   bigint PRIMARY KEY,
    job_id     text   COLLATE "C",
    seq        bigint NOT NULL,
    product_id text   COLLATE "C" NOT NULL,
    type       text   NOT NULL,
    at         bigint NOT NULL,
    actor      text   NOT NULL,
    stage      text,
    data       text   NOT NULL
);

CREATE INDEX event_of_job ON event (job_id, seq) WHERE job_id IS NOT NULL;
CREATE INDEX event_of_audit ON event (position) WHERE job_id IS NULL;

CREATE TABLE hold (
    key    text COLLATE "C" PRIMARY KEY,
    job_id text COLLATE "C" NOT NULL
);

-- The authority on when a lease runs out: what the job's document says of it is stale.
CREATE TABLE lease (
    job_id     text    COLLATE "C",
    epoch      bigint,
    factory_id text    COLLATE "C" NOT NULL,
    live       boolean NOT NULL,
    expires_at bigint  NOT NULL,
    PRIMARY KEY (job_id, epoch)
);

CREATE INDEX lease_by_expiry ON lease (expires_at, job_id);
CREATE INDEX lease_by_factory ON lease (factory_id, job_id);

-- job_id waits for dep_id.
CREATE TABLE dep (
    dep_id text COLLATE "C",
    job_id text COLLATE "C",
    PRIMARY KEY (dep_id, job_id)
);

CREATE TABLE record (
    kind       text   COLLATE "C",
    key        text   COLLATE "C",
    product_id text   COLLATE "C" NOT NULL,
    rev        bigint NOT NULL,
    expires_at bigint,
    doc        text   NOT NULL,
    PRIMARY KEY (kind, key)
) WITH (fillfactor = 80, toast_tuple_target = 8160);

CREATE INDEX record_by_expiry ON record (kind, expires_at, key) WHERE expires_at IS NOT NULL;

CREATE TABLE seen (
    factory_id text   COLLATE "C" PRIMARY KEY,
    at         bigint NOT NULL
) WITH (fillfactor = 50);

-- How many jobs stand where, so that nobody has to count them.
CREATE TABLE tally (
    product_id text   COLLATE "C",
    stage      text   COLLATE "C",
    jobs       bigint NOT NULL,
    PRIMARY KEY (product_id, stage)
) WITH (fillfactor = 50);

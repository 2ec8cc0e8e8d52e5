-- The tables of the store.
-- Text is compared by code point, as in Python. Times are milliseconds since 1970.

-- One row, which every batch locks first: batches are serialized, so positions are in commit order.
CREATE TABLE feed (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    position bigint  NOT NULL
) WITH (fillfactor = 10);

INSERT INTO feed (position) VALUES (0);

-- Only the key is indexed, so that an update of a job mostly stays on the same page.
CREATE TABLE job (
    id  text   COLLATE "C" PRIMARY KEY,
    rev bigint NOT NULL,
    seq bigint NOT NULL,
    doc text   NOT NULL
) WITH (fillfactor = 70, toast_tuple_target = 8160);

-- Columns that lists filter by and that rarely change.
-- The ids in these indexes have another operator class than the primary key, so that a list in that
-- order is read along the index of its condition, even if the planner prefers the primary key.
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

-- Columns that lists filter by and that change often, with few indexes to update.
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

-- Without a pending list, no commit pays for indexing the words of many others.
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

-- Overrides the expiry in the job document, which is stale.
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

-- The number of jobs per product and stage, kept so that no query has to count them.
CREATE TABLE tally (
    product_id text   COLLATE "C",
    stage      text   COLLATE "C",
    jobs       bigint NOT NULL,
    PRIMARY KEY (product_id, stage)
) WITH (fillfactor = 50);

-- The schema after all migrations.

-- Jobs as documents, with the columns that lists filter by.
CREATE TABLE job (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    product_id TEXT NOT NULL,
    name TEXT NOT NULL,
    stage TEXT NOT NULL,
    priority TEXT NOT NULL,
    repo TEXT,
    profile TEXT,
    engine TEXT,
    parent_id TEXT,
    rev INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    words TEXT NOT NULL,
    doc TEXT NOT NULL
) STRICT;

-- Every list is read along one of these indexes, in the order of the ids.
CREATE INDEX job_by_name ON job (name, id);
CREATE INDEX job_by_parent ON job (parent_id, id) WHERE parent_id IS NOT NULL;
CREATE INDEX job_by_profile ON job (profile, id) WHERE profile IS NOT NULL;
CREATE INDEX job_by_engine ON job (engine, id) WHERE engine IS NOT NULL;
CREATE INDEX job_by_repo ON job (repo, id) WHERE repo IS NOT NULL;
CREATE INDEX job_by_priority ON job (priority, id);
CREATE INDEX job_by_product ON job (product_id, id);
CREATE INDEX job_by_product_stage ON job (product_id, stage, id);
CREATE INDEX job_by_stage ON job (stage, id);

-- The words are lower-case and separated by blanks, so the plain tokenizer does not change them.
CREATE VIRTUAL TABLE search USING fts5 (
    words,
    content = 'job',
    content_rowid = 'n',
    detail = none,
    prefix = '1 2 3',
    tokenize = "ascii tokenchars '_'"
);
CREATE TRIGGER job_search_new AFTER INSERT ON job BEGIN
    INSERT INTO search (rowid, words) VALUES (new.n, new.words);
END;
CREATE TRIGGER job_search_moved AFTER UPDATE OF words ON job WHEN old.words <> new.words BEGIN
    INSERT INTO search (search, rowid, words) VALUES ('delete', old.n, old.words);
    INSERT INTO search (rowid, words) VALUES (new.n, new.words);
END;

CREATE TABLE spec (
    job_id TEXT PRIMARY KEY,
    manifest TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;

CREATE TABLE event (
    position INTEGER PRIMARY KEY,
    job_id TEXT,
    seq INTEGER NOT NULL,
    product_id TEXT NOT NULL,
    type TEXT NOT NULL,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    stage TEXT,
    data TEXT NOT NULL
) STRICT;
CREATE INDEX event_of_job ON event (job_id, seq) WHERE job_id IS NOT NULL;
CREATE INDEX event_of_audit ON event (position) WHERE job_id IS NULL;

CREATE TABLE hold (
    key TEXT PRIMARY KEY,
    job_id TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Overrides the expiry in the job document: a renewal updates only this row.
CREATE TABLE lease (
    job_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    factory_id TEXT NOT NULL,
    live INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (job_id, epoch)
) STRICT, WITHOUT ROWID;
CREATE INDEX lease_by_expiry ON lease (expires_at, job_id);

CREATE TABLE dep (
    dep_id TEXT NOT NULL,
    job_id TEXT NOT NULL,
    PRIMARY KEY (dep_id, job_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE record (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    product_id TEXT NOT NULL,
    rev INTEGER NOT NULL,
    expires_at INTEGER,
    doc TEXT NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT;
CREATE INDEX record_by_expiry ON record (kind, expires_at, key) WHERE expires_at IS NOT NULL;

CREATE TABLE seen (
    factory_id TEXT PRIMARY KEY,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The number of jobs per product and stage, kept so that no query has to count them.
CREATE TABLE tally (
    product_id TEXT NOT NULL,
    stage TEXT NOT NULL,
    jobs INTEGER NOT NULL,
    PRIMARY KEY (product_id, stage)
) STRICT, WITHOUT ROWID;

-- One row: the position of the newest event.
CREATE TABLE feed (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    position INTEGER NOT NULL
) STRICT;
INSERT INTO feed (one, position) VALUES (1, 0);

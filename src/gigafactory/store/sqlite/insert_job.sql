-- Insert new jobs.
INSERT INTO job (
    id, product_id, name, stage, priority, repo, profile, engine, parent_id, rev, seq, words, doc
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

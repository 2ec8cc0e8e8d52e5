-- Insert or replace records; their revisions were checked in this transaction.
INSERT INTO record (kind, key, product_id, rev, expires_at, doc)
VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (kind, key) DO UPDATE
   SET product_id = excluded.product_id, rev = excluded.rev, expires_at = excluded.expires_at,
       doc = excluded.doc

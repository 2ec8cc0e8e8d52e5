-- Append events to the feed.
INSERT INTO event (position, job_id, seq, product_id, type, at, actor, stage, data)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

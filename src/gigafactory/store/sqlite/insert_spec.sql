-- Keep what was asked for, once and for all.
INSERT INTO spec (job_id, manifest, body)
VALUES (?, ?, ?)

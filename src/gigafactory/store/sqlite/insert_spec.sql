-- Insert the specs of new jobs; a spec never changes.
INSERT INTO spec (job_id, manifest, body)
VALUES (?, ?, ?)

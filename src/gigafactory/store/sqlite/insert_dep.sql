-- Insert dependencies: a job waits for another.
INSERT INTO dep (dep_id, job_id)
VALUES (?, ?)

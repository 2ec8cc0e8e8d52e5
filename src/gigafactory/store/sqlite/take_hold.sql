-- Give a unique key to a job; the key was seen to be free in this transaction.
INSERT INTO hold (key, job_id)
VALUES (?, ?)
    ON CONFLICT (key) DO UPDATE SET job_id = excluded.job_id

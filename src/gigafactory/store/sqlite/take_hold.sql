-- Give unique keys to jobs; the keys were found free in this transaction.
INSERT INTO hold (key, job_id)
VALUES (?, ?)
    ON CONFLICT (key) DO UPDATE SET job_id = excluded.job_id

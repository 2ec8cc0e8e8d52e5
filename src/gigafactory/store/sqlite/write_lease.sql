-- Keep a lease as it is now.
INSERT INTO lease (job_id, epoch, factory_id, live, expires_at)
VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (job_id, epoch) DO UPDATE SET live = excluded.live, expires_at = excluded.expires_at

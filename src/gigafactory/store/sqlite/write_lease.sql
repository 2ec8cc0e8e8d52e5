-- Insert or replace leases.
INSERT INTO lease (job_id, epoch, factory_id, live, expires_at)
VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (job_id, epoch) DO UPDATE SET live = excluded.live, expires_at = excluded.expires_at

-- Record when factories were last seen; the time never goes back.
INSERT INTO seen (factory_id, at)
VALUES (?, ?)
    ON CONFLICT (factory_id) DO UPDATE SET at = max(at, excluded.at)

-- A factory was heard of; never earlier than was known.
INSERT INTO seen (factory_id, at)
VALUES (?, ?)
    ON CONFLICT (factory_id) DO UPDATE SET at = max(at, excluded.at)

-- Add to how many jobs of a product stand in a stage.
INSERT INTO tally (product_id, stage, jobs)
VALUES (?, ?, ?)
    ON CONFLICT (product_id, stage) DO UPDATE SET jobs = jobs + excluded.jobs

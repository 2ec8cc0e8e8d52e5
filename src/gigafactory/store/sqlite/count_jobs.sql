-- Add to the number of jobs of a product in a stage.
INSERT INTO tally (product_id, stage, jobs)
VALUES (?, ?, ?)
    ON CONFLICT (product_id, stage) DO UPDATE SET jobs = jobs + excluded.jobs

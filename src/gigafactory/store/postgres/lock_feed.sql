-- Wait for the batches before this transaction, and keep those after it waiting.
SELECT position
  FROM feed
   FOR UPDATE

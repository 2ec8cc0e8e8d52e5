-- Wait for earlier batches, and block later ones until this transaction ends.
SELECT position
  FROM feed
   FOR UPDATE

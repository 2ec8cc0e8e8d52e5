-- Free unique keys.
DELETE FROM hold
 WHERE key IN (
       VALUES (?)
       )

-- Commit a batch of groups of writes, each atomically; see the function in schema.sql.
SELECT base, refused, numbers, owners
  FROM commit_batch(
        $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
        $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23
       )

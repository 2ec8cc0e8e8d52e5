-- Return single records, each by kind and key.
SELECT wanted.kind, wanted.key, record.doc
  FROM unnest($1::text[], $2::text[]) AS wanted (kind, key)
  JOIN record ON record.kind = wanted.kind COLLATE "C" AND record.key = wanted.key COLLATE "C"

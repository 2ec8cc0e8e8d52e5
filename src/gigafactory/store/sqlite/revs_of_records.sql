-- Return the revision of each of these records (a JSON list of kinds with keys).
SELECT record.kind, record.key, record.rev
  FROM json_each(?) AS wanted
  JOIN record ON record.kind = json_extract(wanted.value, '$[0]')
   AND record.key = json_extract(wanted.value, '$[1]')

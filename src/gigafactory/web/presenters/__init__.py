"""Data prepared for templates: charts, diffs, DAG pictures, cards and groups."""
